"""A regression-test harness and fuzzer for GPU kernels written in Triton.

Importing this package is light: neither torch nor Triton is loaded.  What a suite file needs is in `harness.suite`.
"""

__version__ = "0.1.0"
