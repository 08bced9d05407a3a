"""The paper tpupoint reproduced."""
