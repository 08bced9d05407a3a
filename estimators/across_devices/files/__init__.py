"""Calibrations across devices as JSON."""
