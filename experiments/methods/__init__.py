"""The papers' methods and what grew out of them, on a user's own files."""
