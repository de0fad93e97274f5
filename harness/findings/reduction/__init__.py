"""Reduction of the source of a failing kernel to a program that a maintainer reads in a minute.

**The key insight: a reduction is a set of edits of a syntax tree, and edits combine.**  A pass only lists small edits.
One edit holds changes that belong together, such as a parameter and its argument in every call.  The search applies as
many edits at once as still show the failure: all, halves, or single ones.  Names stay, and every text is valid Python.
"""

from harness.findings.reduction.reduce import reduce_kernel
from harness.findings.reduction.text_size import lines

__all__ = ["lines", "reduce_kernel"]
