"""TOML files that users edit by hand, and that hold one list of entries: `[[name]]` tables."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from harness.errors import HarnessError, UsageError, unknown


def entries(
    document: Mapping[str, Any], name: str, path: Path, error: type[HarnessError] = UsageError
) -> list[dict[str, Any]]:
    """Return the tables `[[name]]` of the document that was read from `path`, in the file's order.

    Raises:
        HarnessError: an `error`: the document holds something else; the text says how to write entries.
    """
    for other in document:
        if other != name:
            raise error(f"{path}: {unknown('table', other, [name])}")
    listed = document.get(name, [])
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in cast("list[Any]", listed)):
        raise error(f"{path}: write [[{name}]], with two brackets, before each entry")
    return cast("list[dict[str, Any]]", listed)
