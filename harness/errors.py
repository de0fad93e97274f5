"""All errors that the harness raises: one class for each remedy.

    HarnessError
    ├── UsageError          the command line names something that does not exist: fix the command line
    ├── SuiteError          a suite file is wrong: fix the suite
    ├── LibraryError        the library under test cannot be installed or imported: choose another release
    ├── ReplayError         a replay file is damaged or of another version: make a new one
    ├── StoreError          findings or reports cannot be written: free the disk, or run in another folder
    ├── WorkerError         a child process cannot be started or does not speak the protocol
    ├── MissingPart         something optional is not installed: install it
    ├── GpuUnavailable      GPUs are leased to other processes, or sick: wait, or use others
    ├── CannotExecute       the virtual GPU cannot execute a construct: becomes the run's ending, never shown raw
    │   ├── CannotRunHere   the hardware GPU refuses a build that the emulated GPU may accept: as above
    │   └── NoSuchFunction  the virtual GPU's driver lacks a function of CUDA's: as above
    └── LaunchStuck         the virtual GPU ended a launch that would never end: becomes the run's ending

A kernel that misbehaves is not an error but a value (`harness.model.run.Ending`).  `CannotExecute` and `LaunchStuck`
unwind the library that launched the kernel.  All other errors end the command with exit status 2.
"""

import difflib
import errno
from collections.abc import Iterable
from pathlib import Path


class HarnessError(Exception):
    """The root; its text is one line with the cause and the remedy."""


class UsageError(HarnessError):
    """The command line names something that does not exist or makes no sense."""


class SuiteError(HarnessError):
    """A suite file cannot be loaded or declares something contradictory."""


class LibraryError(HarnessError):
    """The library under test cannot be installed or imported."""


class ReplayError(HarnessError):
    """A file is no replay file, is of another version, or is damaged."""


class StoreError(HarnessError):
    """A folder or file for results cannot be written: the disk is full, read-only, or the folder is gone."""


def store_error(error: OSError, place: Path) -> StoreError:
    """Return the error for a place that cannot be written."""
    where = Path(error.filename).absolute() if isinstance(error.filename, str) else place.absolute()
    return StoreError(f"cannot write to {where}: {error.strerror}")


DISK_ERRORS = frozenset({errno.ENOSPC, errno.EROFS, errno.EDQUOT})


def disk_problem(error: BaseException | None) -> str | None:
    """Return what is wrong with the disk if that caused the error: `No space left on device`; otherwise None."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in DISK_ERRORS:
            return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        error = error.__cause__ or error.__context__
    return None


class WorkerError(HarnessError):
    """A worker process cannot be started, or broke the protocol in a way that no case can explain."""


class MissingPart(HarnessError):
    """An optional part is not installed; the text ends with the command that provides it."""


class GpuUnavailable(HarnessError):
    """GPUs exist, but other processes hold their leases or they are in quarantine."""


class CannotExecute(HarnessError):
    """The virtual GPU cannot execute a construct; `what` names it, and the engine adds kernel and line."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class CannotRunHere(CannotExecute):
    """The hardware GPU refuses a build that the emulated GPU may accept."""


class NoSuchFunction(CannotExecute, AttributeError):
    """The virtual GPU's driver lacks a function of CUDA's.  `hasattr` sees an ordinary missing attribute."""


class LaunchStuck(HarnessError):
    """The programs of a launch wait for each other forever; the engine's session holds the details."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """Return the error for an unknown name, with the most similar names: `unknown device 'h20': did you mean h200?`."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}"
    return UsageError(f"unknown {kind} {name!r}: {hint}")
