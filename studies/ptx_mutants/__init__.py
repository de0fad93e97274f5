"""Mutants of compiled kernels: which wrong barriers, waits, fragments and addresses the PTX machine notices."""
