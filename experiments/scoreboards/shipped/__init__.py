"""Scoreboards of what ships: fitted files and calibrations."""
