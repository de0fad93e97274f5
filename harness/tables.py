"""Files in TOML that hold one list of entries and nothing else: what a user keeps by hand, and may misspell."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from harness.errors import HarnessError, UsageError, unknown


def entries(
    document: Mapping[str, Any], name: str, path: Path, error: type[HarnessError] = UsageError
) -> list[dict[str, Any]]:
    """The tables `[[name]]` of what was read from `path`, in the file's order; none where it has none.

    Raises:
        HarnessError: an `error`; it holds something else, and the text says what was meant.
    """
    for other in document:
        if other != name:
            raise error(f"{path}: {unknown('table', other, [name])}")
    found = document.get(name, [])
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in cast("list[Any]", found)):
        raise error(f"{path}: write [[{name}]], with two brackets, before each entry")
    return cast("list[dict[str, Any]]", found)
