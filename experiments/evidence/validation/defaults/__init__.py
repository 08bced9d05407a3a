"""The default answer against public figures of whole models."""
