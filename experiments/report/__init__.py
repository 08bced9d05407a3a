"""Answers as text, pages and charts."""
