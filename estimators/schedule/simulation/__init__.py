"""Jobs by event simulation, and the queues in closed form that it must meet."""
