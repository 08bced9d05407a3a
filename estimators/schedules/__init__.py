"""How operations share the machine's time: in sequence, in parallel, by threads, dispatched."""
