"""The docs agree with the code: commands parse, paths and names exist, figures equal their constants."""

import ast
import json
import operator
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from ci.write_reference import wanted
from harness.cli import COMMANDS, module_of, parse
from harness.cli.command import Parser
from harness.errors import HarnessError
from harness.project_settings import OWN_FILE
from harness.suite_files import suite_files
from tests.test_rooms import LEAVES, ROOMS, SUB_ROOMS

ROOT = Path(__file__).resolve().parent.parent
DOCS = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
FIGURE = re.compile(r"(\S+)(?:\s+(?:s|times|cases|accesses|trips))?<!-- = ([\w.]+) -->")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
ROOTS = ("harness", "tests", "suites", "docs", "ci", "constraints")
WORDS = {"five": 5, "eight": 8, "ten": 10, "twelve": 12, "a dozen": 12, "four": 4}
ARITHMETIC: dict[type[ast.operator], Any] = {
    ast.LShift: operator.lshift,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
}
GUIDES = (*sorted((ROOT / "docs/how-to").glob("*.md")), ROOT / "docs/reference/commands.md")
CLONE = "clone of the harness"
"""What a section says, or the start of its page, if its commands need files that the package lacks."""
OF_A_CLONE = r"make [a-z]|python (-m )?(ci|studies)\b|pytest tests/planted|harness \w+ ci/"
BY_PYTEST_AND_XDIST = frozenset({"-m", "-n", "-k", "--junitxml", "--dist"})


def lines_of_blocks(page: Path) -> Iterator[str]:
    """Yield each line of a page's fenced blocks of shell commands."""
    yield from code_lines(page.read_text(encoding="utf-8"))


def code_lines(text: str) -> Iterator[str]:
    """Yield each line of the fenced blocks of shell commands in a text."""
    for language, block in FENCE.findall(text):
        if language in {"", "sh", "yaml"}:
            for line in block.replace("\\\n", " ").splitlines():
                yield line.strip().removeprefix("$ ").removeprefix("- run: ").removeprefix("run: ")


def inline_code(page: Path) -> Iterator[str]:
    """Yield each piece of code inside a page's sentences."""
    yield from INLINE.findall(FENCE.sub("", page.read_text(encoding="utf-8")))


def commands(
    name: str, lines: Callable[[Path], Iterator[str]], pages: Iterable[Path] = DOCS
) -> list[tuple[str, list[str]]]:
    """Return page and words of every command of this name, without its comment."""
    return [
        (page.name, shlex.split(line, comments=True))
        for page in pages
        for line in lines(page)
        if line.startswith(f"{name} ") and "…" not in line
    ]


@pytest.mark.parametrize(("page", "words"), commands("harness", lines_of_blocks))
def test_every_harness_command_in_the_docs_parses(page: str, words: list[str]) -> None:
    try:
        parse(words[1:])
    except (HarnessError, SystemExit) as error:
        pytest.fail(f"{page}: {' '.join(words)}: {error}")


@pytest.mark.parametrize(("page", "words"), commands("harness", inline_code))
def test_commands_in_sentences_have_the_options_that_they_name(page: str, words: list[str]) -> None:
    name = words[1].removeprefix("--")
    if name not in {"help", "version"}:
        parser = Parser(prog=name)
        import_module(module_of(name)).add_options(parser)
        assert {word for word in words if word.startswith("--")} - parser.option_names == set(), page


@pytest.mark.parametrize("page", ["README.md", "docs/README.md"])
def test_the_finding_of_a_start_page_has_the_id_of_its_regression(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    (quoted,) = re.findall(r"^WARNING  write-overlap  layer_norm_bwd_kernel .* (\w{8})$", text, re.MULTILINE)
    kept = json.loads((ROOT / "suites" / "regressions" / f"{quoted}.json").read_text(encoding="utf-8"))
    assert (kept["oracle"], kept["kernel"]) == ("write-overlap", "layer_norm_bwd_kernel")
    assert f"harness replay {quoted}\n" in text


def test_every_command_is_at_a_glance_in_the_reference() -> None:
    text = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    _, block = FENCE.findall(text)[0]
    assert set(re.findall(r"^harness ([a-z-]+)", block, re.MULTILINE)) == set(COMMANDS)


def test_parts_that_follow_from_the_code_are_current() -> None:
    stale = [path for path, text in wanted().items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    assert [str(path.relative_to(ROOT)) for path in stale] == [], "run `make reference`"


def test_pytest_commands_use_options_that_exist(pytestconfig: pytest.Config) -> None:
    known = {option for option in vars(pytestconfig.option) if option.startswith("harness_")}
    named = {
        word.partition("=")[0]
        for _, words in commands("pytest", lines_of_blocks)
        for word in words
        if word.startswith("-")
    }
    wrong = {word for word in named - BY_PYTEST_AND_XDIST if word.removeprefix("--").replace("-", "_") not in known}
    assert wrong == set()


def test_make_commands_name_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z][a-z0-9.-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {words[1] for _, words in commands("make", lines_of_blocks)} - targets == set()


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_commands_of_guides_work_without_a_clone_or_say_so(page: Path) -> None:
    start, *sections = re.split(r"^(?=## )", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    unmarked = [
        line
        for section in (start, *sections)
        if CLONE not in " ".join((start + section).split())
        for line in (*code_lines(section), *INLINE.findall(section))
        if re.match(OF_A_CLONE, line)
    ]
    assert unmarked == []


def test_suites_of_the_package_have_their_short_names_in_guides() -> None:
    named = {
        suite
        for lines in (lines_of_blocks, inline_code)
        for _, words in commands("harness", lines, GUIDES)
        if words[1] in {"fuzz", "matrix"}
        for suite in takewhile(lambda word: not word.startswith("-"), words[2:])
    }
    assert {suite for suite in named if suite.startswith("suites/") and (ROOT / suite).exists()} == set()
    short = {suite for suite in named if re.fullmatch(r"[a-z_]+(:\w+)?", suite)} - {"suites"}
    assert {suite for suite in short if suite_files(suite)} == short != set()


def test_installed_extras_exist() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = {
        extra for page in DOCS for extra in re.findall(r"kernel-harness\[(\w+)\]", page.read_text(encoding="utf-8"))
    }
    assert {extra for extra in named if not re.search(rf"^{extra} = \[", project, re.MULTILINE)} == set()


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_in_the_docs_exist(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    paths = [
        path for path in INLINE.findall(text) if path.partition("/")[0] in ROOTS and re.fullmatch(r"[\w./*-]+", path)
    ]
    assert [path for path in paths if not list(ROOT.glob(path.rstrip("/")))] == []


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_in_the_docs_lead_somewhere(page: Path) -> None:
    dead: list[str] = []
    for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    assert dead == []


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_of_modules_in_the_docs_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    names = {name for name in INLINE.findall(FENCE.sub("", text)) if re.fullmatch(r"harness(\.\w+)+", name)}
    names -= {OWN_FILE}
    assert {name for name in names if not exists(name)} == set()


def exists(name: str) -> bool:
    """Report if a dotted name is a module of the harness, or a name at the top of one."""
    path = ROOT.joinpath(*name.split("."))
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    module, _, member = name.rpartition(".")
    source = source_of(module)
    return source is not None and re.search(rf"\b{member}\b", source.read_text(encoding="utf-8")) is not None


def source_of(module: str) -> Path | None:
    """Return the file of a module."""
    path = ROOT.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def figures() -> list[tuple[str, str, str]]:
    """Return page, figure and constant of each figure that names its constant in a comment."""
    return [(page.name, *found) for page in DOCS for found in FIGURE.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("page", "figure", "constant"), figures())
def test_figures_in_the_docs_equal_their_constants(page: str, figure: str, constant: str) -> None:
    number = WORDS.get(figure) or float(figure.replace(",", ""))
    assert number == value_of(constant), f"{page}: {figure} for {constant}"


def test_every_comment_with_a_constant_follows_a_figure() -> None:
    written = sum(page.read_text(encoding="utf-8").count("<!-- = ") for page in DOCS)
    assert written == len(figures()) > 0


def value_of(constant: str) -> float:
    """Compute a constant from its source, without importing its module."""
    module, _, name = constant.rpartition(".")
    source = source_of(module)
    assert source is not None, f"there is no module {module}"
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                return computed(value)
            case ast.AnnAssign(target=ast.Name(id=found), value=ast.expr() as value) if found == name:
                return computed(value)
            case _:
                pass
    raise AssertionError(f"{module} has no constant {name}")


def computed(node: ast.expr) -> float:
    """Compute an expression of numbers."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.BinOp(left=left, op=op, right=right):
            result: float = ARITHMETIC[type(op)](computed(left), computed(right))
            return result
        case _:
            raise AssertionError(f"{ast.unparse(node)} is no number")


def test_environment_variables_in_the_docs_exist() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "harness").rglob("*.py"))
    named = {name for page in DOCS for name in re.findall(r"\bHARNESS_[A-Z_]+\b", page.read_text(encoding="utf-8"))}
    assert {name for name in named if f'"{name}"' not in code} == set()


def test_the_drawing_of_the_rooms_is_true() -> None:
    page = (ROOT / "docs" / "explanation" / "internals.md").read_text(encoding="utf-8")
    drawing = next(block for _, block in FENCE.findall(page) if block.startswith("cli "))
    drawn: dict[str, tuple[str, ...]] = {}
    for line in drawing.splitlines():
        name, _, rest = line.partition(" ")
        room = name.replace("/", ".")
        columns = re.split(r"\s{2,}", rest.strip())
        drawn[room] = tuple(columns[1].split(", ")) if len(columns) > 1 else ()
    assert tuple(reversed(drawn)) == ROOMS
    assert {room: subs for room, subs in drawn.items() if subs} == SUB_ROOMS
    leaves = re.search(r"^Leaves that any room may import: (.*?)\.$", page, re.MULTILINE | re.DOTALL)
    assert leaves is not None
    assert set(INLINE.findall(leaves[1])) == set(LEAVES)


def test_the_architecture_fits_one_page() -> None:
    assert len((ROOT / "docs" / "explanation" / "internals.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_both_start_pages_show_one_finding_and_then_harness_run() -> None:
    readme, start = ((ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/README.md"))
    finding = re.search(r"^```\nWARNING  .*?^```$", readme, re.MULTILINE | re.DOTALL)
    assert finding is not None
    assert finding[0] in start
    for page in (readme, start):
        assert re.findall(r"^harness [a-z]+", page, re.MULTILINE)[0] == "harness run"


def test_the_glossary_has_the_eight_words() -> None:
    text = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
    words = ["op", "case", "launch", "run", "oracle", "verdict", "signature", "finding"]
    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == words
