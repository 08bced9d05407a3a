"""One file a verb. Each has `register(app)`, imports only typer at the top, and its work inside the functions."""
