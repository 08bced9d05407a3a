"""The five papers reproduced: each module has `run() -> list[ReproductionRow]`."""
