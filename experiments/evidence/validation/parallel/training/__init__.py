"""Published training runs: steps, layouts and memory."""
