"""python tools/commit_subject.py FILE: refuses a commit message whose subject is too long or has no line below it."""

from __future__ import annotations

import sys
from pathlib import Path

LONGEST = 72
"""Letters of a subject."""


def fault(message: str) -> str:
    """What is wrong of a message, in a line; "" where nothing is."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject = lines[0] if lines else ""
    if not 0 < len(subject) <= LONGEST:
        return f"the subject has {len(subject)} letters: want 1 to {LONGEST}"
    if subject.endswith("."):
        return "the subject ends with a full stop: want none"
    if len(lines) > 1 and lines[1]:
        return "the second line is not empty: want an empty one below the subject"
    return ""


if __name__ == "__main__":
    sys.exit(fault(Path(sys.argv[1]).read_text()) or 0)
