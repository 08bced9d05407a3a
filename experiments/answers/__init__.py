"""An estimate as people read it: time and band first, then throughput, memory and what bounds it."""
