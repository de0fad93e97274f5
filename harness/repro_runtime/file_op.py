"""A suite with one placeholder op for any reproducer; `harness.repro_runtime.engine` runs the file instead."""

from typing import Any, NoReturn

from harness.errors import SuiteError
from harness.suite import op


@op(dims={}, inputs={}, options={"file": ("",)})
def file(file: Any) -> NoReturn:
    """Stand for the file; never called.

    Raises:
        SuiteError: always.
    """
    raise SuiteError(f"{file} is run by harness.repro_runtime.engine alone")


file.reference(lambda: None)
