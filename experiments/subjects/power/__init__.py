"""Power limits: the time and energy of a run under each, and the one to choose."""
