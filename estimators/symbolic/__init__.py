"""Formulas by sympy: declared once, lowered to steps on arrays, differentiated, and kept."""
