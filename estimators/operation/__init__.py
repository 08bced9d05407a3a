"""How long one operation takes on a machine."""
