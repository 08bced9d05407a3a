"""How anything is timed here."""
