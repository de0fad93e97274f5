"""Mutants: correct kernels of a library with one small change each, to count how many of them the oracles notice."""
