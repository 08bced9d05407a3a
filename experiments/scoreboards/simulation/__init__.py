"""Scoreboard `simulation`: event simulations against closed forms and means, on measured times."""
