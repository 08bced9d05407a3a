"""Language models as records read from their own files, and the workload of one step of serving them."""
