"""A repository such as a user's: a package with a kernel, a suite with its op, and a copy of nothing else."""

import shutil
from pathlib import Path

from tests.cli.command_line import ROOT

SUITE = """\
from harness.suite import DType, op, tensor, tokens


@op(dims={{"T": tokens(64, grows=False)}}, inputs={{"x": tensor("T", grad=False)}}, dtypes=(DType.FP32,))
def double(x):
    from mykernels import rows

    return rows.double(x, masked={masked})


@double.reference
def definition(x):
    return x + x
"""


def small_repository(folder: Path, *, correct: bool) -> Path:
    """Write the repository.  Its kernel stores beyond the end of its output unless it is correct."""
    package, suites = folder / "mykernels", folder / "suites"
    for one in (package, suites, folder / ".git"):
        one.mkdir(parents=True)
    (package / "__init__.py").touch()
    shutil.copy(ROOT / "suites" / "planted" / "kernels" / "out_of_bounds_store.py", package / "rows.py")
    (suites / "double.py").write_text(SUITE.format(masked=correct), encoding="utf-8")
    return folder
