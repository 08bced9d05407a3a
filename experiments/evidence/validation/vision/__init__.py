"""Image networks of timm on GPUs and CPUs: operations, rows of the public table, and the law fitted to them."""
