"""Compiling without a launch: children that run Triton's whole compiler, and engines that need host code alone."""
