"""The registry of patches: every attribute of another project that the harness replaces in this process.

`PATCHES` has them in the order in which they were made.  Each names its reason and the releases for which it was
written.  In a process of the user's own they are suspended outside of `harness.run`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

ABSENT = object()
"""The original of an attribute that the owner did not have itself: it inherits it, or has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """One replaced attribute of a module, a class or an object."""

    owner: Any
    name: str
    original: Any
    replacement: Any
    why: str
    releases: str
    """The releases for which the patch was written: `Triton 3.6 to 3.9`."""

    def __str__(self) -> str:
        owner = self.owner if hasattr(self.owner, "__name__") else type(self.owner)
        module = "" if owner.__name__ == getattr(owner, "__module__", owner.__name__) else f"{owner.__module__}."
        return f"{module}{owner.__name__}.{self.name} ({self.releases}): {self.why}"

    def undo(self) -> bool:
        """Put the original back, and return True.

        A replacement that other code has replaced stays, because that code may call it.
        """
        if vars(self.owner).get(self.name, ABSENT) is not self.replacement:
            return False
        if self.original is ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.original)
        return True


class Patches:
    """The patches of one process."""

    def __init__(self) -> None:
        self._patches: list[Patch] = []
        self._suspended: list[Patch] | None = None
        """The patches to be made again, while all are suspended."""

    def replace(self, owner: Any, name: str, replacement: object, *, why: str, releases: str) -> None:
        """Replace an attribute.  `owner` is a module, a class, or an object with a `__dict__`."""
        patch = Patch(
            owner=owner,
            name=name,
            original=vars(owner).get(name, ABSENT),
            replacement=replacement,
            why=why,
            releases=releases,
        )
        if self._suspended is not None:
            self._suspended.append(patch)
            return
        setattr(owner, name, replacement)
        self._patches.append(patch)

    def replace_each(self, owner: Any, replacements: Mapping[str, object], *, why: str, releases: str) -> None:
        """Replace several attributes for one reason."""
        for name, replacement in replacements.items():
            self.replace(owner, name, replacement, why=why, releases=releases)

    def undo(self) -> None:
        """Undo all patches, the newest first: one attribute may be replaced several times."""
        while self._patches:
            self._patches.pop().undo()

    def suspend(self) -> None:
        """Undo all patches until `resume`.  Those that are asked for meanwhile wait."""
        undone = [patch for patch in reversed(self._patches) if patch.undo()]
        self._patches, self._suspended = [], undone[::-1]

    def resume(self) -> None:
        """Make the suspended patches again."""
        suspended, self._suspended = self._suspended or (), None
        for patch in suspended:
            self.replace(patch.owner, patch.name, patch.replacement, why=patch.why, releases=patch.releases)

    def __iter__(self) -> Iterator[Patch]:
        return iter(tuple(self._patches))


PATCHES = Patches()
"""The patches of this process, and of the process from which it was forked."""
