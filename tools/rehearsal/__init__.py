"""Scoreboards on rows given from outside: what is taken out, the folders that hold it, the runs, and their table."""
