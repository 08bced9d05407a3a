"""The paper seqpoint reproduced."""
