"""The recorded case: what a replay needs, from any document that holds cases."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.documents import files
from harness.documents.campaign import CampaignReport
from harness.documents.chunk import ShardReport
from harness.documents.finding import CaseDocument, FindingDocument, RegressionDocument
from harness.findings.report_merging import report_in
from harness.model.case import HARNESS_FOLDER, Case
from harness.model.finding import Finding, WatchedLaunch
from harness.model.verdict import Signature
from harness.suite_files import project_of

DOCUMENTS = (CampaignReport, ShardReport, FindingDocument, RegressionDocument, CaseDocument)


LAUNCHES = HARNESS_FOLDER / "launches"
"""The folder of launches that `harness run` recorded: each is a suite of one op."""


def is_recorded_launch(case: Case) -> bool:
    """Return True if the case repeats a launch that `harness run` recorded."""
    return Path(case.op.rpartition(":")[0]).parent.parent.parts[-2:] == LAUNCHES.parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A case to run again, and the failure that it is known to show."""

    case: Case
    signature: Signature | None
    """None for a bare case: any failure is news."""
    symptoms: tuple[Signature, ...] = ()
    """Of other failures with the same cause."""
    libraries: tuple[str, ...] = ()
    import_paths: tuple[str, ...] = ()
    """As `Finding.import_paths`."""
    preceding_case: Case | None = None
    """Runs first in the same process."""
    watched: WatchedLaunch | None = field(default=None, compare=False)
    """Where `harness run` saw it; None for a case of a suite."""
    project: str = field(default="", compare=False)
    """The root of the project in which the file is; empty if there is no file."""

    @property
    def id(self) -> str:
        """The id of the finding; for a bare case, its digest."""
        return self.case.digest if self.signature is None else self.signature.id


def read(path: Path) -> tuple[Recorded, ...]:
    """Read the recorded cases of a file: a campaign, a finding, a regression, or a case.

    Raises:
        ReplayError: the file cannot be read or is none of these; the text names the file and the field at fault.
    """
    project = str(project_of(path.parent))
    return tuple(replace(recorded, project=project) for recorded in _recorded(files.read(path, *DOCUMENTS)))


def parse(text: str) -> tuple[Recorded, ...]:
    """Read the recorded cases of a text.

    Raises:
        ReplayError: as `read`.
    """
    return _recorded(files.loads(text, *DOCUMENTS))


def _recorded(
    document: CampaignReport | ShardReport | FindingDocument | RegressionDocument | CaseDocument,
) -> tuple[Recorded, ...]:
    match document:
        case CampaignReport() | ShardReport():
            return tuple(map(recorded_finding, report_in(document).findings))
        case RegressionDocument():
            signature, symptoms, import_paths = document.failure, document.symptoms, document.import_paths
        case CaseDocument():
            signature, symptoms, import_paths = None, (), ()
    return (
        Recorded(
            case=document.case,
            signature=signature,
            symptoms=tuple(symptom.signature for symptom in symptoms),
            libraries=document.libraries,
            import_paths=import_paths,
            preceding_case=document.preceding_case,
            watched=document.watched if isinstance(document, FindingDocument) else None,
        ),
    )


def recorded_finding(finding: Finding) -> Recorded:
    """Return what a replay of the finding needs."""
    return Recorded(
        case=finding.case,
        signature=finding.fail.signature,
        symptoms=finding.signatures[1:],
        libraries=finding.libraries,
        import_paths=finding.import_paths,
        preceding_case=finding.preceding_case,
        watched=finding.watched,
    )
