"""Event simulation by SimPy: stages, pipelines and jobs, and calibration through them."""
