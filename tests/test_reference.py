"""The reference names everything that the code offers, and the published schemas accept what is read and written."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import harness
from ci import oracle_examples
from ci.reference import schemas
from ci.reference.commands import parser_of, plugin_options
from harness import catalogue, project_settings, settings, suite
from harness.cli import COMMANDS
from harness.cli.command import ExitStatus
from harness.documents import files
from harness.documents.kinds import Kind
from harness.engines.cuda.sanitizers.suppressions import Suppression
from harness.findings import known_issues
from harness.model.op import Op
from harness.night import night_settings
from harness.oracles import registry
from tests.planted.test_planted import ON_HARDWARE
from tests.reports.samples import REPORT

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
VARIABLE = re.compile(r'"([A-Z][A-Z_]{4,})"')


def code_of(page: str) -> set[str]:
    """Return what stands in backquotes on a page of the reference."""
    return set(re.findall(r"`([^`\n]+)`", (REFERENCE / page).read_text(encoding="utf-8")))


def first_words(page: str) -> set[str]:
    return {code.partition(" ")[0] for code in code_of(page)}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_option_is_in_the_reference(command: str) -> None:
    text = (REFERENCE / "commands.md").read_text(encoding="utf-8")
    section = re.search(rf"^## harness {command}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    documented = set(re.findall(r"`(-[\w-]+)", section[1]))
    options = {option for action in parser_of(command).actions for option in action.option_strings}
    assert options - {"-h", "--help", "--help-all"} - documented == set()


def test_every_option_of_the_pytest_plugin_is_in_the_reference() -> None:
    assert set(plugin_options()) - first_words("pytest.md") == set()


def test_every_public_name_of_suites_is_in_the_reference() -> None:
    headings = re.findall(r"^### (\w+)$", (REFERENCE / "suite-api.md").read_text(encoding="utf-8"), re.MULTILINE)
    checks = ("check", "CheckVerdict", "Ruling", "CandidateFlaw", "FlawKind")
    assert sorted(headings) == sorted((*suite.__all__, "kernel_test", "run", *checks))


def test_every_name_of_the_package_is_in_the_reference() -> None:
    assert set(harness.__all__) - {*suite.__all__, "kernel_test", "run", "check", "Checker"} == set()
    assert "harness.Checker" in (REFERENCE / "suite-api.md").read_text(encoding="utf-8")


def test_every_setting_of_a_project_is_in_the_reference() -> None:
    known = {*project_settings.NAMES, *night_settings.NAMES, *night_settings.SEARCH_NAMES}
    known |= {*known_issues.KEYS, *(field.name for field in fields(Suppression))}
    assert known - code_of("settings.md") == set()


def test_every_argument_of_op_is_in_the_reference() -> None:
    arguments = {field.name for field in fields(Op)} - {"name", "suite", "call", "reference", "portable_name"}
    assert arguments - code_of("suite-api.md") == set()


def test_every_oracle_is_in_the_reference() -> None:
    assert {oracle.name for oracle in registry.ALL} - code_of("oracles.md") == set()


FINDINGS = (ROOT / "docs" / "how-to" / "read-a-finding.md").read_text(encoding="utf-8")


def test_the_page_on_findings_has_each_oracle_in_the_order_of_judging() -> None:
    assert re.findall(r"^## ([\w-]+)$", FINDINGS, re.MULTILINE) == [oracle.name for oracle in registry.ALL]


def test_every_oracle_that_needs_no_gpu_has_an_example() -> None:
    examples = dict(re.findall(r"^<!-- example: ([\w-]+) -->\n```text\n\w+  ([\w-]+)  ", FINDINGS, re.MULTILINE))
    needed = {oracle.name for oracle in registry.ALL} - ON_HARDWARE
    assert examples == {name: name for name in needed} == {name: name for name in oracle_examples.suites()}
    further = dict(re.findall(r"^<!-- planted: ([\w-]+) -->\n```text\n\w+  ([\w-]+)  ", FINDINGS, re.MULTILINE))
    assert further == {suite: oracle for suite, (oracle, *_) in oracle_examples.further().items()}


@pytest.mark.slow
@pytest.mark.parametrize("oracle", ["write-overlap", "unwritten"])
def test_an_example_is_what_the_harness_prints_now(oracle: str) -> None:
    example = re.search(rf"^<!-- example: {oracle} -->\n```text\n(.*?)```$", FINDINGS, re.MULTILINE | re.DOTALL)
    assert example is not None
    printed = oracle_examples.example(oracle, *oracle_examples.suites()[oracle])
    assert without_seconds(printed) == without_seconds(example[1])


def without_seconds(text: str) -> str:
    return re.sub(r"after [\d.]+ s", "after … s", text)


def test_every_device_is_in_the_reference() -> None:
    assert {device.slug for device in catalogue.devices()} - code_of("devices.md") == set()


def test_every_exit_status_is_in_the_reference() -> None:
    rows = re.findall(r"^\| (\d+) \|", (REFERENCE / "commands.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(row) for row in rows] == list(ExitStatus)


def test_every_environment_variable_is_in_the_reference() -> None:
    own = {
        name
        for path in (ROOT / "harness").rglob("*.py")
        for name in VARIABLE.findall(path.read_text(encoding="utf-8"))
        if name.startswith("HARNESS_")
    }
    read = set(VARIABLE.findall(Path(settings.__file__).read_text(encoding="utf-8")))
    assert (own | read) - code_of("environment.md") == set()


def validator(kind: Kind) -> Any:
    schema = json.loads((REFERENCE / "schemas" / f"{kind}.schema.json").read_text(encoding="utf-8"))
    return Draft202012Validator(schema)


def mistakes(kind: Kind, document: object) -> list[str]:
    return [error.message for error in validator(kind).iter_errors(document)]


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_of_document_has_a_valid_schema(kind: Kind) -> None:
    validator(kind).check_schema(validator(kind).schema)


OLD = sorted((ROOT / "tests" / "documents" / "version_1").glob("*.json"))
KEPT = sorted((ROOT / "suites" / "regressions").glob("*.json"))
CLASSES = {schemas.kind_of(document): document for document in schemas.DOCUMENTS}


@pytest.mark.parametrize("path", [*OLD, *KEPT], ids=lambda path: path.stem)
def test_documents_that_are_written_anew_are_valid(path: Path) -> None:
    kind = Kind.REGRESSION if path in KEPT else Kind(path.stem)
    assert mistakes(kind, json.loads(files.dumps(files.read(path, CLASSES[kind])))) == []


def test_a_campaign_with_every_part_is_valid() -> None:
    assert mistakes(Kind.CAMPAIGN, json.loads(files.dumps(REPORT))) == []


def test_the_schema_refuses_what_the_reader_refuses() -> None:
    document = json.loads(files.dumps(REPORT))
    finding = document["findings"][0]
    finding["case"]["dims"]["T"] = "x"
    finding["colour"] = "red"
    (branch,) = {error.absolute_path[0] for error in validator(Kind.CAMPAIGN).iter_errors(document)}
    assert branch == "findings"
    assert len(mistakes(Kind.CAMPAIGN, document)) == 2
