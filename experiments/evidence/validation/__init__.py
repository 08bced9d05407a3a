"""Scoreboards against public measurements: a module each with `rows(scored: Path | None) -> list[ValidationRow]`."""
