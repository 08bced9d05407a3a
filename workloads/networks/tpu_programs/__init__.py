"""The programs of the TPUPoint study: their networks, what feeds them, their runs."""
