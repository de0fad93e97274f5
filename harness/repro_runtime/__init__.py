"""The runtime of reproducers: run a plain Python file on the virtual GPU, and check it with one oracle.

Single-file reproducers call `judge` if a bug shows only with checked memory accesses, or only on a GPU that is not
there.  The import is light: a child process loads torch, Triton and the file after it emulates the GPU.

A file whose case runs outside the main thread has a function `import_library()`, which the main thread calls first.
The file has a function `run()` that returns results by name.  If the results have a reference, `truth()` returns it in
float64.  `TOLERANCE` holds the largest root-mean-square errors by name: of the whole result, and of a row.
"""

from harness.repro_runtime.file_runner import FileRunner
from harness.repro_runtime.judge_file import FIXED, PRESENT, UNTESTABLE, judge
from harness.repro_runtime.request import CheckRequest

__all__ = ["FIXED", "PRESENT", "UNTESTABLE", "CheckRequest", "FileRunner", "judge"]
