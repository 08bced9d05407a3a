"""The paper dlbricks reproduced."""
