"""Contracts of inference kernels as suites: with the declarations of version 0.1, and with today's."""
