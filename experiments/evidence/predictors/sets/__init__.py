"""Public measurements as cases, one file a scoreboard."""
