"""Why a time is what it is, and the cheapest change of it."""
