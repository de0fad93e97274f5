"""TTIR's number types in NumPy, and rounding between them."""
