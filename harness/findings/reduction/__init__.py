"""Making the source of a failing kernel small, so that a maintainer reads it in a minute.

**The key insight: a reduction is a set of edits of a syntax tree, and edits combine.**  A pass only lists small edits,
each of them changes that belong together, such as a parameter with its argument in every call.  The search takes as
many of them at once as still show the failure: all, or halves, or single ones.  Names stay, and texts stay Python.
"""

from harness.findings.reduction.reduce import reduce_kernel
from harness.findings.reduction.text_size import lines

__all__ = ["lines", "reduce_kernel"]
