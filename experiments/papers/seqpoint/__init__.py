"""SeqPoint: published numbers and ours."""
