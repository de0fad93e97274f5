"""The snapshot that the answers of a process share: importing this module makes it, so it is imported last.

A fork server of checks imports it, and its children share it.
"""

from harness.checks.torch_originals import Originals

_ORIGINALS: list[Originals] = []


def originals() -> Originals:
    """Return the snapshot, made anew if torch was changed since: call it before any code of a candidate runs."""
    if _ORIGINALS[0].is_changed:  # by the engine, which changes torch for the emulated device
        _ORIGINALS[0] = Originals()
    return _ORIGINALS[0]


_ORIGINALS.append(Originals())  # at the end, for it keeps the names of this module too
