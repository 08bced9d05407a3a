"""Iterations that stand for a run (SeqPoint), phases of a run (TPUPoint), and warm-up."""
