"""A regression-test harness and fuzzer for GPU kernels written in Triton.

Importing this package loads neither torch nor Triton.  Suite files import `harness.suite`.
"""

__version__ = "0.1.0"
