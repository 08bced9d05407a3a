"""Serving language models: questions, answers, plans."""
