"""A recorded step on another machine, runtime or loader."""
