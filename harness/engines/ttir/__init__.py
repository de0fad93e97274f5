"""TTIR: its data types, its parser, and analyses of kernels."""
