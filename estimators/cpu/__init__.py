"""CPUs and many-core processors: cores, bandwidth, caches, threads, and the Xeon Phi study."""
