"""SpMV by a convolutional network, and PageRank: published numbers and ours."""
