"""Report how the code base reads: sizes, names, prose, imports.  Nothing fails because of the report.

python ci/house.py                 the table
python ci/house.py --long PATH...  sentences of more than 25 words, with file and line
"""

import ast
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).resolve().parent.parent
LONG_SENTENCE = 25
MANY_PARAMETERS = 5
SHOWN = 8
CRUMB = 60
PRONOUNS = frozenset({"one", "found", "given", "made", "others", "theirs", "told"})
"""Names that say nothing about what they hold."""
SAME_KIND_OF_THING = frozenset({"__init__.py", "__main__.py", "engine.py", "launches.py", "driver.py", "worker.py"})
"""File names that may stand in two rooms."""
NATIVE, OPERATIONS = ROOT / "harness/engines/virtual/native", ROOT / "harness/engines/virtual/operations"
"""A file of the one translates what the file of the same name in the other interprets."""
OWN_NAMES = frozenset({ROOT / "harness" / "cli", ROOT / "harness" / "documents"})
"""Files there have the name of a command or of a kind of document."""
SENTENCE_END = re.compile(r"(?<=[.!?])\**(?:\s+|$)")
HTML_COMMENT = re.compile(r"<!--.*?-->")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
PRAGMAS = ("# noqa", "# type:", "# pyright", "# fmt")
NO_PROSE = re.compile(r"^\s*(\||#|>|\$|!\[|<)")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a docstring, a comment or a page."""

    file: Path
    line: int
    text: str

    @property
    def words(self) -> int:
        """The number of words; a word holds a letter or a digit."""
        return sum(any(character.isalnum() for character in word) for word in self.text.split())


@dataclass(slots=True)
class Shares:
    """Lines of Python by their content."""

    lines: int = 0
    docstring: int = 0
    comment: int = 0
    sentences: list[Sentence] = field(default_factory=list[Sentence])


def main(arguments: Sequence[str]) -> int:
    """Print the report, or the long sentences of the given paths."""
    if arguments[:1] == ["--long"]:
        for sentence in _prose(_files(arguments[1:])):
            if sentence.words > LONG_SENTENCE:
                print(f"{sentence.file.relative_to(ROOT)}:{sentence.line}: {sentence.words} words: {sentence.text}")
        return 0
    python = [file for file in _files(["*.py"]) if file.suffix == ".py"]
    harness = [file for file in python if file.is_relative_to(ROOT / "harness")]
    _sizes(python)
    _names()
    _pronouns(harness)
    _crumbs(harness)
    _shares(harness)
    docs = list(_prose(_files(["README.md", "CONTRIBUTING.md", "docs"])))
    print(f"docs: {_lengths(docs)}")
    _functions(harness)
    cycles = [sorted(cycle) for cycle in strongly_connected(module_imports()) if len(cycle) > 1]
    print(f"import cycles: {len(cycles)}", *(" ".join(cycle) for cycle in cycles), sep="\n  ")
    return 0


def names_that_stand_twice() -> dict[str, list[str]]:
    """Return the files of each file name and public class name of `harness` that stands twice and should not."""
    names: dict[str, list[Path]] = defaultdict(list)
    for file in sorted((ROOT / "harness").rglob("*.py")):
        if file.name not in SAME_KIND_OF_THING and file.parent not in OWN_NAMES:
            names[file.name].append(file)
        for node in _tree(file).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                names[f"class {node.name}"].append(file)
    return {
        name: [str(file.relative_to(ROOT)) for file in files]
        for name, files in names.items()
        if len(files) > 1 and {file.parent for file in files} != {NATIVE, OPERATIONS}
    }


def module_imports() -> dict[str, set[str]]:
    """Return the modules of `harness` that each module of it imports: also inside functions, and by `import_module`."""
    files = {_module(path): path for path in (ROOT / "harness").rglob("*.py")}
    # The package itself imports nothing: it names what the rooms offer.
    return {module: set(_imports(path, files)) - {module, "harness"} for module, path in files.items()} | {
        "harness": set()
    }


def strongly_connected(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the strongly connected components of a graph; one of several nodes is a cycle."""
    left = set(graph)
    found: list[set[str]] = []
    # Nearly all modules are in no cycle: drop those that import none, or that none imports, until only cycles are left.
    while ends := {node for node in left if not graph[node] & left} | (left - set().union(*(graph[n] for n in left))):
        found += [{node} for node in ends]
        left -= ends
    while left:
        node = min(left)
        component = {other for other in _reachable(graph, node) if node in _reachable(graph, other)}
        found.append(component)
        left -= component
    return found


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    ahead = list(graph.get(start, ()))
    while ahead:
        node = ahead.pop()
        if node not in reached:
            reached.add(node)
            ahead += graph.get(node, ())
    return reached


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _imports(path: Path, known: dict[str, Path]) -> Iterator[str]:
    for node in _nodes(path):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name in known)
            case ast.ImportFrom(module=str(module), names=names) if module in known:
                members = (f"{module}.{alias.name}" for alias in names)
                yield from (member if member in known else module for member in members)
            case ast.Call(func=ast.Name("import_module") | ast.Attribute(attr="import_module"), args=[name, *_]):
                if (module := _text_of(name, path)) in known:
                    yield module
            case _:
                pass


def _text_of(expression: ast.expr, path: Path) -> str:
    """Return the text of a literal, or of a constant of the file; empty for any other expression."""
    match expression:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            for node in _tree(path).body:
                match node:
                    case ast.Assign(targets=[ast.Name(id=target)], value=ast.Constant(value=str(text))) if (
                        target == name
                    ):
                        return text
                    case _:
                        pass
        case _:
            pass
    return ""


def _files(paths: Iterable[str]) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *paths],  # noqa: S607 - git is where PATH says
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def _sizes(files: Sequence[Path]) -> None:
    lines = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    for file, count in sorted(lines.items(), key=lambda item: -item[1])[:SHOWN]:
        print(f"{count:6} lines  {file.relative_to(ROOT)}")
    rooms: dict[str, int] = defaultdict(int)
    for file, count in lines.items():
        rooms["/".join(file.relative_to(ROOT).parent.parts[:2]) or file.name] += count
    print("  ".join(f"{room} {count}" for room, count in sorted(rooms.items())))


def _names() -> None:
    twice = names_that_stand_twice()
    print(f"names of files and public classes that stand twice: {len(twice)}")
    for name, places in twice.items():
        print(f"  {name}: {' '.join(places)}")


def stored_pronouns(file: Path) -> Iterator[tuple[int, str]]:
    """Yield line and name of each parameter, variable and attribute of a file that has no noun as its name."""
    for node in _nodes(file):
        match node:
            case (
                ast.Name(id=name, ctx=ast.Store())
                | ast.Attribute(attr=name, ctx=ast.Store())
                | ast.arg(arg=name)
                | ast.MatchAs(name=str(name))
            ) if name.lstrip("_") in PRONOUNS:
                yield node.lineno, name
            case _:
                pass


def _pronouns(files: Sequence[Path]) -> None:
    counts = Counter(name.lstrip("_") for file in files for _, name in stored_pronouns(file))
    print("stored names that are no nouns:", *(f"{name} {counts[name]}" for name in sorted(PRONOUNS)))


def _crumbs(files: Sequence[Path]) -> None:
    """Print the number of short files that one other file imports."""
    importers = Counter(module for modules in module_imports().values() for module in modules)
    lines = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in files if file.name != "__init__.py"}
    crumbs = [file for file, count in lines.items() if count <= CRUMB and importers[_module(file)] == 1]
    total = sum(lines[file] for file in crumbs)
    print(f"files of at most {CRUMB} lines with one importer: {len(crumbs)}, {total} lines")
    once = sum(importers[_module(file)] == 1 for file in lines)
    print(f"files with one importer: {once} of {len(lines)}")


def _shares(files: Sequence[Path]) -> None:
    by_room: dict[str, Shares] = defaultdict(Shares)
    everything = Shares()
    for file in files:
        parts = file.relative_to(ROOT / "harness").parts
        lines = len(file.read_text(encoding="utf-8").splitlines())
        docstring = sum(text.count("\n") + 1 for _, text in _docstrings(file))
        comment, sentences = len(_comments(file)), list(_prose([file]))
        for shares in (by_room[parts[0] if len(parts) > 1 else "(top)"], everything):
            shares.lines += lines
            shares.docstring += docstring
            shares.comment += comment
            shares.sentences += sentences
    for room, shares in [*sorted(by_room.items()), ("all", everything)]:
        docstrings, comments = (100 * part / shares.lines for part in (shares.docstring, shares.comment))
        print(f"{room:14} docstrings {docstrings:4.1f} %, comments {comments:4.1f} %, {_lengths(shares.sentences)}")


def _lengths(sentences: Sequence[Sentence]) -> str:
    words = [sentence.words for sentence in sentences if sentence.words]
    if len(words) < 2:
        return "no prose"
    return f"words a sentence: median {median(words):g}, 90th percentile {quantiles(words, n=10)[-1]:g}"


def _functions(files: Sequence[Path]) -> None:
    many: list[tuple[int, str]] = []
    lengths: list[tuple[int, str]] = []
    for file in files:
        for node in _nodes(file):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                place = f"{file.relative_to(ROOT)}:{node.lineno} {node.name}"
                taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                count = sum(argument.arg not in {"self", "cls"} for argument in taken)
                if count > MANY_PARAMETERS:
                    many.append((count, place))
                lengths.append(((node.end_lineno or node.lineno) - node.lineno + 1, place))
    print(f"functions with more than {MANY_PARAMETERS} parameters: {len(many)}")
    for count, place in sorted(many, reverse=True)[:SHOWN]:
        print(f"  {count} {place}")
    print("longest functions:", *(f"  {count} lines {place}" for count, place in sorted(lengths)[:-4:-1]), sep="\n")


def _prose(files: Iterable[Path]) -> Iterator[Sentence]:
    for file in files:
        if file.suffix == ".py":
            for line, text in [*_docstrings(file), *_blocks(_comments(file))]:
                yield from _sentences(file, line, text)
        elif file.suffix == ".md":
            yield from _markdown(file)


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def _nodes(file: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(_tree(file)))


def _docstrings(file: Path) -> Iterator[tuple[int, str]]:
    """Yield docstrings of modules, classes and functions, and strings below a field or a constant, with their lines."""
    for node in _nodes(file):
        for child in getattr(node, "body", ()) if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            match child:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield child.lineno, text
                case _:
                    pass


@cache
def _comments(file: Path) -> tuple[tuple[int, str], ...]:
    """Return the comments and their lines, without those for tools."""
    with file.open("rb") as source:
        return tuple(
            (token.start[0], token.string.lstrip("# "))
            for token in tokenize.tokenize(source.readline)
            if token.type == tokenize.COMMENT and not token.string.startswith(PRAGMAS)
        )


def _blocks(comments: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Join the comments of consecutive lines."""
    first, last, text = 0, -1, ""
    for line, comment in comments:
        if line == last + 1:
            text += f"\n{comment}"
        else:
            if text:
                yield first, text
            first, text = line, comment
        last = line
    if text:
        yield first, text


def _markdown(file: Path) -> Iterator[Sentence]:
    text = FENCE.sub(lambda block: "\n" * block[0].count("\n"), file.read_text(encoding="utf-8"))
    line = 1
    for paragraph in re.split(r"(\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) ))", text):
        if paragraph.strip():
            kept = "\n".join(HTML_COMMENT.sub("", row) for row in paragraph.split("\n") if not NO_PROSE.match(row))
            yield from _sentences(file, line, kept)
        line += paragraph.count("\n")


def _sentences(file: Path, line: int, text: str) -> Iterator[Sentence]:
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\w+:) )", text):
        for sentence in SENTENCE_END.split(" ".join(paragraph.split())):
            if sentence:
                yield Sentence(file, line, sentence)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
