"""SeqPoint and phases on a user's own logs."""
