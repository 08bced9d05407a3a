"""Logs of MLPerf training."""
