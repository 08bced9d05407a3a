"""The paper spmv-cnn reproduced."""
