"""How operations share the machine's time."""
