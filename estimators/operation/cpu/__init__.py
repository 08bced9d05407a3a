"""Operation models of CPUs and many-core processors."""
