"""Find suite files without loading them."""

from pathlib import Path

from harness.errors import SuiteError, unknown


def suite_files(given: str) -> tuple[str, ...]:
    """Return the suite files that an argument names: the file itself, or those in the folder.

    Raises:
        SuiteError: the folder holds no suite.
        UsageError: there is no such file or folder.
    """
    path = Path(given)
    if not path.exists():
        raise unknown("suite", given, [str(file) for file in Path("suites").rglob("*.py") if is_suite(file)])
    if not path.is_dir():
        return (given,)
    if files := tuple(str(file) for file in sorted(path.rglob("*.py")) if is_suite(file)):
        return files
    raise SuiteError(f"no suite in the folder {given!r}: a suite is a Python file that imports harness.suite")


def all_suite_files(given: list[str]) -> tuple[str, ...]:
    """Return the suite files that several arguments name, each once.

    Raises:
        SuiteError, UsageError: as `suite_files`.
    """
    return tuple(dict.fromkeys(file for argument in given for file in suite_files(argument)))


def is_suite(path: Path) -> bool:
    """Return True if a Python file imports `harness.suite`, and is neither a test nor private."""
    if path.name.startswith(("test_", "_", ".")) or path.name == "conftest.py":
        return False
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return "harness.suite" in text or "from harness import suite" in text
