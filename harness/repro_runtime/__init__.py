"""Watching a plain Python file: its `run()` on the virtual GPU, judged by one named oracle.

What single-file reproducers call where only a watched memory, or another GPU than the one at hand, shows a bug.  Light
to import: torch, Triton and the file itself are loaded in a child process, after it wears the GPU.

The file has a function `run()` that returns results by name.  Where those have a definition, `truth()` gives it in
float64, and `TOLERANCE`, by name, how large the root-mean-square error may be: over the whole result, over a row.
"""

from harness.repro_runtime.file_runner import FileRunner
from harness.repro_runtime.judge_file import CANNOT_TELL, GONE, THERE, judge
from harness.repro_runtime.request import Asked

__all__ = ["CANNOT_TELL", "GONE", "THERE", "Asked", "FileRunner", "judge"]
