"""A finding in a JAX call, as a person sees it: the model is named, and no single file is promised."""

import json
from pathlib import Path

import pytest

from harness.engines.jax.jax_releases import missing_release
from tests.cli.command_line import Project

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing_release()), reason=missing_release() or "JAX is installed"),
]

MODEL = (
    "The launches follow a model of jaxlib's call target: kernels are tuned while the executable initialises; "
    "aliased inputs are restored by the index of buffers."
)


@pytest.mark.nightly
def test_a_finding_names_the_model_and_cannot_become_a_single_file(tmp_path: Path) -> None:
    project = Project(tmp_path)
    found = project.harness("fuzz", "planted:jax_tuned_early", "--device", "b200", "--cases", "2", "--seed", "1")
    (finding,) = (json.loads(path.read_text("utf-8")) for path in tmp_path.glob(".harness/findings/*/finding.json"))
    (name,) = (path.parent.name for path in tmp_path.glob(".harness/findings/*/finding.json"))
    refused = project.harness("repro", name)
    assert found.status == 1
    assert MODEL in " ".join(found.out.split())
    assert finding["launch"]["model"]
    assert (refused.status, refused.err.splitlines()[-1]) == (
        2,
        f"harness: {name} is in a JAX call, which cannot be written as a single file: use harness replay",
    )
