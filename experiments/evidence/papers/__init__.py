"""The five papers reproduced: each folder has a module with `run() -> list[ReproductionRow]`."""
