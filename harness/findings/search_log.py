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


class SearchLog:
    """The findings of one search, by the signature under which the search saw them."""

    def __init__(self, folder: Path, text_of: Callable[[Finding], str], versions: Mapping[str, str]) -> None:
        self._folder = folder
        self._text_of = text_of
        self._versions = versions
        self._findings: dict[Signature, Finding] = {}
        self._own_ids: set[str] = set()
        """Ids of the folders that this search made and that hold nothing of an earlier search."""

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
        place = self._folder / finding.id
        is_new = not place.exists()
        try:
            if is_new or finding.id in self._own_ids or finding.confirmation is not Confirmation.NOT_TRIED:
                store.save((finding,), self._folder, self._text_of, self._versions)
        except OSError as error:
            raise store_error(error, self._folder) from None
        if is_new:
            self._own_ids.add(finding.id)
        absorbed = (self._findings.pop(symptom.signature, None) for symptom in finding.symptoms)
        for former in (known, *absorbed):
            if former is not None and former.id != finding.id:
                self._forget(former.id)

    def is_symptom(self, signature: Signature) -> bool:
        """Return True if the failure is a symptom of another finding."""
        return any(signature in finding.signatures[1:] for finding in self._findings.values())

    def _forget(self, identity: str) -> None:
        """Remove the folder of a finding that has been replaced, unless another signature still has it."""
        if identity in self._own_ids and all(finding.id != identity for finding in self._findings.values()):
            self._own_ids.discard(identity)
            shutil.rmtree(self._folder / identity, ignore_errors=True)
