"""What others than a law's own collections measured of the same kinds."""
