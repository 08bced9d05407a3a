"""What all layers share: units, errors, bounded readers, caches, records, answers and their columns."""
