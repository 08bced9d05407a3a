"""PyTorch programs as workloads."""
