"""TPUPoint: published numbers and ours."""
