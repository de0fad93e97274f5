"""The log of one search: every failure is stored when it is seen, and replaced as triage learns more.

So a search that is killed loses nothing that it printed.
"""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.errors import store_error
from harness.findings import store
from harness.model.finding import Confirmation, Finding
from harness.model.verdict import Signature

_State = tuple[tuple[int, int], ...]


class SearchLog:
    """The findings of one search, by the signature under which the search saw them."""

    def __init__(self, folder: Path, text_of: Callable[[Finding], str], versions: Mapping[str, str]) -> None:
        self._folder = folder
        self._text_of = text_of
        self._versions = versions
        self._findings: dict[Signature, Finding] = {}
        self._own_folders: dict[str, _State] = {}
        """Folders that this search made, by id, as it left them.  One that has changed holds findings of another."""

    def __contains__(self, signature: Signature) -> bool:
        return signature in self._findings

    @property
    def findings(self) -> Mapping[Signature, Finding]:
        """The latest finding of each signature."""
        return self._findings

    def keep(self, signature: Signature, finding: Finding) -> None:
        """Store the finding in place of the one that this signature had.

        A failure that was not tried again replaces nothing that an earlier search stored.

        Raises:
            StoreError: the store cannot be written.  The finding is in `findings` all the same.
        """
        known = self._findings.get(signature)
        self._findings[signature] = finding
        absorbed = (self._findings.pop(symptom.signature, None) for symptom in finding.symptoms)
        replaced = [former for former in (known, *absorbed) if former is not None and former.id != finding.id]
        try:
            with store.locked(self._folder):
                self._write(finding)
                for former in replaced:
                    self._forget(former.id)
        except OSError as error:
            raise store_error(error, self._folder) from None

    def is_symptom(self, signature: Signature) -> bool:
        """Return True if the failure is a symptom of another finding."""
        return any(signature in finding.signatures[1:] for finding in self._findings.values())

    def _write(self, finding: Finding) -> None:
        place = self._folder / finding.id
        if place.exists() and not self._is_own(finding.id):
            self._own_folders.pop(finding.id, None)
            if finding.confirmation is Confirmation.NOT_TRIED:
                store.add_cases(finding, self._folder)
            else:
                store.write(finding, self._folder, self._text_of(finding), self._versions)
            return
        store.write(finding, self._folder, self._text_of(finding), self._versions)
        self._own_folders[finding.id] = _state_of(place)

    def _is_own(self, identity: str) -> bool:
        state = self._own_folders.get(identity)
        return state is not None and state == _state_of(self._folder / identity)

    def _forget(self, identity: str) -> None:
        """Remove the folder of a finding that has been replaced, unless another signature or search has it."""
        if all(finding.id != identity for finding in self._findings.values()) and self._is_own(identity):
            del self._own_folders[identity]
            shutil.rmtree(self._folder / identity, ignore_errors=True)


def _state_of(place: Path) -> _State:
    """Return what differs after each write: files are written under another name, and renamed."""
    files = (place / store.FINDING, *sorted(place.glob(store.CASES)))
    return tuple((file.stat().st_ino, file.stat().st_mtime_ns) for file in files if file.exists())
