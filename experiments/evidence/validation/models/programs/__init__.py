"""PyTorch programs on GPUs: read, fitted and scored."""
