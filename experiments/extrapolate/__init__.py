"""Series of measured times from files, continued."""
