"""DLBricks: published numbers and ours."""
