"""Mutation testing: change one small thing in a library's kernels, and count the changes that the oracles notice."""
