"""Scoreboards against public measurements, a file each: its name is what `slipstick validate` calls it."""
