"""A few rows measured on a new machine: which, what they say of its parameters, and whether to believe them."""
