"""The suite of one op that stands for any watched file; `harness.repro_runtime.engine` runs the file in its place."""

from typing import Any, NoReturn

from harness.errors import SuiteError
from harness.suite import op


@op(dims={}, inputs={}, options={"file": ("",)})
def file(file: Any) -> NoReturn:
    """Never called.

    Raises:
        SuiteError: always.
    """
    raise SuiteError(f"{file} is run by harness.repro_runtime.engine alone")


file.reference(lambda: None)
