"""The learner: models with group effects, folds that leave groups out, bands, and calibrations."""
