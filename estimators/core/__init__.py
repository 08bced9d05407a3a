"""Formulas, what compiles them, and the records of every answer."""
