"""What a user measured, as estimators of his questions: whole times, steps and runs of servers, operations."""
