"""Scoreboards against public measurements: each module has `rows(scored: Path | None) -> list[ValidationRow]`."""
