"""Questions asked of estimators: studies, measuring, papers reproduced, validation, the command line."""
