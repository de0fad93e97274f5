"""`pytest --harness-run`: pytest starts anew under `harness run`, which checks each launch of all its tests."""

import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence

from harness.pytest_plugin.plugin_options import AUTO

PASSED_ON = {
    "--harness-device": "--device",
    "--harness-sm": "--sm",
    "--harness-engine": "--engine",
    "--harness-sanitizer": "--sanitizer",
    "--harness-with": "--with",
    "--harness-json": "--json",
    "--harness-fail-on": "--fail-on",
}
"""The options with a value that `harness run` has too, by their names in pytest."""


def start_again(parsed: Namespace, arguments: Sequence[str]) -> None:
    """Replace this process by `harness run` with pytest and the same arguments.

    It is done before pytest imports a conftest, which may import torch.  `parsed` holds the options.
    """
    options = [
        word for name, option in PASSED_ON.items() for value in _values(parsed, name) for word in (option, value)
    ]
    command = [sys.executable, "-m", "pytest", *_without_ours(arguments)]
    os.execv(sys.executable, [sys.executable, "-m", "harness.cli", "run", *options, "--", *command])  # noqa: S606 - no shell is wanted


def _values(parsed: Namespace, name: str) -> Iterator[str]:
    value = getattr(parsed, name.removeprefix("--").replace("-", "_"))
    if value is not None and value != AUTO:
        yield from map(str, value if isinstance(value, list) else [value])


def _without_ours(arguments: Sequence[str]) -> Iterator[str]:
    words = iter(arguments)
    for word in words:
        name, equals, _ = word.partition("=")
        if name in PASSED_ON:
            if not equals:
                next(words, None)
        elif name != "--harness-run":
            yield word
