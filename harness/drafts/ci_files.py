"""The files of `harness init --ci`: templates of CI systems, with the settings of one repository in them.

The templates in `ci_templates` are valid files as they are.  Each setting replaces the one place that holds it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from harness import __version__

CI_TEMPLATES = Path(__file__).with_name("ci_templates")
"""Files for CI systems, the only copy."""
GATE = "github-gate.yml"
WORKFLOWS = Path(".github", "workflows")
WORKFLOW = WORKFLOWS / "kernel-harness.yml"
SCRIPTS = Path("ci")


class CiSystem(StrEnum):
    """What `--ci` takes."""

    GITHUB = "github"
    GITLAB = "gitlab"
    BUILDKITE = "buildkite"
    SLURM = "slurm"
    RAY = "ray"
    CONTAINER = "container"


@dataclass(frozen=True, slots=True, kw_only=True)
class CiFile:
    """One file for a repository."""

    template: str
    path: Path
    note: str
    """What a person does with it."""


FILES = {
    CiSystem.GITHUB: (
        CiFile(template=GATE, path=WORKFLOW, note="searches at each change"),
        CiFile(
            template="github-nightly.yml",
            path=WORKFLOWS / "kernel-harness-nightly.yml",
            note="set the labels of your GPU runners",
        ),
    ),
    CiSystem.GITLAB: (
        CiFile(
            template="gitlab.yml",
            path=Path(".gitlab", "kernel-harness.yml"),
            note="add `include: /.gitlab/kernel-harness.yml` to .gitlab-ci.yml, and set the tags of your GPU runners",
        ),
    ),
    CiSystem.BUILDKITE: (
        CiFile(
            template="buildkite.yml",
            path=Path(".buildkite", "kernel-harness.yml"),
            note="set the queues of your agents",
        ),
    ),
    CiSystem.SLURM: (
        CiFile(template="slurm-array.sh", path=SCRIPTS / "slurm-array.sh", note="its first lines say how it starts"),
        CiFile(template="slurm-merge.sh", path=SCRIPTS / "slurm-merge.sh", note="merges the tasks of the array"),
    ),
    CiSystem.RAY: (
        CiFile(template="ray-up.yaml", path=SCRIPTS / "ray-up.yaml", note="a cluster on AWS"),
        CiFile(template="ray-kuberay.yaml", path=SCRIPTS / "ray-kuberay.yaml", note="a job on Kubernetes"),
        CiFile(template="ray-slurm.sh", path=SCRIPTS / "ray-slurm.sh", note="a cluster in a Slurm allocation"),
    ),
    CiSystem.CONTAINER: (
        CiFile(template="Containerfile", path=Path("Containerfile"), note="its first lines say how it is built"),
    ),
}
SHARED_BY: Mapping[str, tuple[str, Callable[[int], str]]] = {
    "github-nightly.yml": (r"^( +shard: )\[.*\]$", lambda machines: f"[{', '.join(_shards(machines))}]"),
    "gitlab.yml": (r"^( +parallel: )\d+$", str),
    "buildkite.yml": (r"^( +parallelism: )\d+$", str),
    "slurm-array.sh": (r"^(#SBATCH --array=)1-\d+$", lambda machines: f"1-{machines}"),
}
"""Where a template states by how many machines a search is shared, and how it writes the number."""
UNPINNED = re.compile(r"""((?:HARNESS:|HARNESS=|pip install).*kernel-harness(?:\[[\w,]+\])?)(?=["']?$)""", re.MULTILINE)
DEVICES = re.compile(r"^( +DEVICES: |.*\$\{DEVICES:-)([\w,-]+)", re.MULTILINE)
LIBRARY = re.compile(
    r"""^ *(?:LIBRARY: |library=).*\n| --with "[^"]*LIBRARY[^"]*"| --with "\$library\"""", re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CiSettings:
    """What the files take from a repository."""

    has_library: bool
    """True: the repository is a library under test.  Otherwise suites find the kernels, or the project names them."""
    devices: str | None = None
    """The devices that the project names; None keeps those of the template."""
    machines: int | None = None
    """By how many machines a search on GPUs is shared; None keeps the number of the template."""


def text_of(template: str, settings: CiSettings) -> str:
    """Return a template with the settings of a repository, and with this release of the harness."""
    text = (CI_TEMPLATES / template).read_text(encoding="utf-8")
    text = UNPINNED.sub(rf"\g<1>=={__version__}", text)
    if not settings.has_library:
        text = LIBRARY.sub("", text)
    if settings.devices is not None:
        text = DEVICES.sub(rf"\g<1>{settings.devices}", text)
    if settings.machines is not None and template in SHARED_BY:
        pattern, written = SHARED_BY[template]
        text = re.sub(pattern, rf"\g<1>{written(settings.machines)}", text, flags=re.MULTILINE)
    return text


def is_shared(system: CiSystem) -> bool:
    """Return True if a file of the system states by how many machines a search is shared."""
    return any(file.template in SHARED_BY for file in FILES[system])


def _shards(machines: int) -> Iterator[str]:
    return (f'"{number}/{machines}"' for number in range(1, machines + 1))
