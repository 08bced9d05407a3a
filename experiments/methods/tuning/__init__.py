"""An input pipeline tuned while it runs (TPUPoint)."""
