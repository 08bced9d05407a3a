"""Training runs as iterations with their sequence lengths, and profiles of steps."""
