"""Python runs this file when it starts in a process of a watched command: its folder is on PYTHONPATH.

It hands over to the `sitecustomize` of the environment, which it hides, and then to the harness.
"""

import importlib.util
import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent


def _run_hidden() -> None:
    entries = [entry for entry in sys.path if Path(entry or os.curdir).resolve() != _FOLDER]
    spec = PathFinder.find_spec("sitecustomize", entries)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


_run_hidden()
try:
    from harness.watched.attaching import attach_on_import
except ImportError as error:
    # Another Python than that of `harness`: the parent reports that no process was watched.
    sys.stderr.write(f"harness: {sys.executable} cannot import the harness, so its launches are not checked: {error}\n")
else:
    attach_on_import(os.environ)
