"""The files of `harness init --ci` hold the settings of the repository, and stay valid."""

import re
from pathlib import Path

import pytest

from harness import __version__
from harness.cli import main
from harness.drafts.ci_files import CI_TEMPLATES, DEVICES, FILES, SHARED_BY, CiSettings, CiSystem, is_shared, text_of
from harness.drafts.repository import NIGHT_MINUTES, WORKFLOW
from harness.night.night_settings import read_night_settings
from harness.search import USUAL_DEVICES

SETTINGS = """\
[tool.kernel-harness]
device = "h200"
"""
PACKAGE = """\
[project]
name = "rows"
version = "1"
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_template_belongs_to_a_system() -> None:
    used = [file.template for files in FILES.values() for file in files]
    assert sorted(used) == sorted(path.name for path in CI_TEMPLATES.iterdir())


@pytest.mark.parametrize("system", CiSystem)
def test_a_system_gets_its_templates_with_this_release(
    repository: Path, system: CiSystem, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "pyproject.toml").write_text(PACKAGE, encoding="utf-8")
    assert main(["init", "--ci", system]) == 0
    printed = capsys.readouterr().out.splitlines()
    night = ["changed pyproject.toml: set what a night searches"] if is_shared(system) else []
    assert printed == [*(f"wrote {file.path}: {file.note}" for file in FILES[system]), *night]
    for file in FILES[system]:
        text = (repository / file.path).read_text(encoding="utf-8")
        template = (CI_TEMPLATES / file.template).read_text(encoding="utf-8")
        assert text.replace(f"=={__version__}", "") == template


def test_the_gate_takes_the_devices_of_the_project_and_no_library(repository: Path) -> None:
    (repository / "pyproject.toml").write_text(SETTINGS, encoding="utf-8")
    assert main(["init", "--ci", "github"]) == 0
    gate = (repository / WORKFLOW).read_text(encoding="utf-8")
    assert re.search(r"^  DEVICES: h200 #", gate, re.MULTILINE)
    assert ("harness fuzz" in gate, "harness gate" in gate) == (True, True)
    assert ("LIBRARY" in gate, '--with "' in gate) == (False, False)


@pytest.mark.parametrize(
    ("name", "settings", "table"),
    [
        ("pyproject.toml", PACKAGE, "[tool.kernel-harness.night]"),
        ("pyproject.toml", SETTINGS, "[tool.kernel-harness.night]"),
        ("pyproject.toml", SETTINGS + 'with = ["."]\n', "[tool.kernel-harness.night]"),
        ("harness.toml", 'device = "h200"\nwith = ["."]\n', "[night]"),
    ],
    ids=["package", "no library", "library", "own file"],
)
def test_a_night_on_gpus_is_drafted_into_the_settings(repository: Path, name: str, settings: str, table: str) -> None:
    (repository / name).write_text(settings, encoding="utf-8")
    (repository / "suites").mkdir()
    (repository / "suites" / "rows.py").write_text("from harness.suite import op\n", encoding="utf-8")
    assert main(["init", "--ci", "github"]) == 0
    text = (repository / name).read_text(encoding="utf-8")
    assert text.startswith(f"{settings}\n{table}  # ")
    night = read_night_settings(repository)
    (search,) = night.searches
    assert (night.minutes, search.suites, search.engine) == (NIGHT_MINUTES, ("suites/rows.py",), "cuda")
    assert search.libraries == ((str(repository),) if settings != SETTINGS else ())


@pytest.mark.parametrize(
    ("name", "settings"),
    [("pyproject.toml", "[tool.kernel-harness.night]\nminutes = 5\n"), ("harness.toml", "[night]\nminutes = 5\n")],
)
def test_a_night_that_the_settings_have_stays_as_it_is(repository: Path, name: str, settings: str) -> None:
    (repository / name).write_text(settings, encoding="utf-8")
    assert main(["init", "--ci", "slurm"]) == 0
    assert (repository / name).read_text(encoding="utf-8") == settings


def test_settings_that_take_no_further_table_are_not_damaged(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = '[tool]\nkernel-harness = { device = "h200" }\n'
    (repository / "pyproject.toml").write_text(settings, encoding="utf-8")
    assert main(["init", "--ci", "slurm"]) == 2
    assert "write the table tool.kernel-harness.night there yourself" in capsys.readouterr().err
    assert (repository / "pyproject.toml").read_text(encoding="utf-8") == settings
    assert not (repository / "ci").exists()


@pytest.mark.parametrize("template", sorted(path.name for path in CI_TEMPLATES.iterdir()))
def test_a_template_without_a_library_names_none(template: str) -> None:
    text = text_of(template, CiSettings(has_library=False))
    assert re.findall(r"LIBRARY|library=|\$library", text) == []


@pytest.mark.parametrize(
    ("template", "line"),
    [
        ("github-nightly.yml", '        shard: ["1/3", "2/3", "3/3"]'),
        ("gitlab.yml", "  parallel: 3"),
        ("buildkite.yml", "    parallelism: 3"),
        ("slurm-array.sh", "#SBATCH --array=1-3"),
    ],
)
def test_machines_share_the_night_as_the_command_says(template: str, line: str) -> None:
    text = text_of(template, CiSettings(has_library=True, machines=3))
    assert text.splitlines().count(line) == 1
    before = text_of(template, CiSettings(has_library=True))
    assert len(re.findall(SHARED_BY[template][0], before, re.MULTILINE)) == 1


@pytest.mark.parametrize("gate", ["github-gate.yml", "gitlab.yml", "ray-slurm.sh"])
def test_files_search_the_default_devices_in_one_place(gate: str) -> None:
    (place,) = DEVICES.finditer((CI_TEMPLATES / gate).read_text(encoding="utf-8"))
    assert place[2] == USUAL_DEVICES


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ci", "ray", "--machines", "2"], "--machines does not go with --ci ray"),
        (["--ci", "github", "rows.py"], "--ci writes files of a CI system alone"),
        (["--machines", "2"], "--machines shares the searches of a CI system: add --ci SYSTEM"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    repository: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert list(repository.iterdir()) == [repository / ".git"]
