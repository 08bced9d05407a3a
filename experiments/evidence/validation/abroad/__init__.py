"""Whole questions from published pages that nothing was fitted to and no constant was chosen on."""
