"""The layout of a training step on at most so many devices: searched in closed form."""
