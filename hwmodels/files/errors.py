"""The one kind of error that a user's own input causes."""

from __future__ import annotations


class InputError(ValueError):
    """What a user gave cannot be used; the message is one line for them (exit code 2)."""
