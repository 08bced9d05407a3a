"""Jobs of several stages: files, event simulation of many runs, their pages."""
