"""A search on many machines: how it is divided, and who runs which part."""
