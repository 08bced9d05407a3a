"""Equal threads with barriers and contention: closed form and simulation."""
