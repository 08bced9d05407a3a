"""Constants that were chosen on data: one file a model, each with its version, its data and how it is refitted."""
