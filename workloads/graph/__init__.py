"""Operations, their costs and the graph of what waits for what."""
