"""The settings of a night: what its searches take from the project."""

from pathlib import Path

import pytest

from harness.night.night_settings import read_night_settings

SETTINGS = """\
device = "h200,b200"
with = ["my-library==1.0"]

[[night.search]]
suites = ["fla:norm"]
engine = "ENGINE"
"""


@pytest.mark.parametrize(
    ("engine", "device"),
    [
        ("virtual", "h200,b200"),
        ("tests.cli.fake_engine:FakeEngine", "h200,b200"),
        ("cuda", None),
        ("ptx,cuda", None),
    ],
)
def test_a_search_on_a_hardware_gpu_has_no_device_of_the_project(
    tmp_path: Path, engine: str, device: str | None
) -> None:
    (tmp_path / "harness.toml").write_text(SETTINGS.replace("ENGINE", engine), encoding="utf-8")
    (search,) = read_night_settings(tmp_path).searches
    assert (search.device, search.libraries) == (device, ("my-library==1.0",))


def test_a_search_on_a_hardware_gpu_emulates_the_device_that_it_names(tmp_path: Path) -> None:
    settings = SETTINGS.replace("ENGINE", "cuda").replace("suites =", 'device = "b200"\nsuites =')
    (tmp_path / "harness.toml").write_text(settings, encoding="utf-8")
    (search,) = read_night_settings(tmp_path).searches
    assert search.device == "b200"
