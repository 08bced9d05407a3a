"""The paper xeon-phi reproduced."""
