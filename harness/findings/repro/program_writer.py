"""Assembly of reproducers from recorded pieces: the docstring, the function `run`, and the main part."""

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness import catalogue
from harness.findings.repro.code_layout import COLUMNS, joined, laid_out, needed_imports
from harness.findings.repro.pieces import CallRecord, LaunchRecord, Preamble, RowsRecord, TruthRecord
from harness.model.case import CallContext, Case, Environment, LaneFill, ProgramOrder, Scale
from harness.model.run import FormMismatch, ResultForm
from harness.model.verdict import Fail
from harness.oracles import registry
from harness.oracles.traits import Proof, Traits
from harness.syntax_trees import module_of

TOLERANT = frozenset({Proof.TRUTH, Proof.COMPARED_RUNS})
"""Proofs that compare results, and so need tolerances."""
RAISING = frozenset({Proof.EXCEPTION, Proof.GPU_LIMIT})
"""Proofs by an exception on a hardware GPU too."""
CALLS = {
    CallContext.MAIN: "run()",
    CallContext.THREAD: "ThreadPoolExecutor(1).submit(run).result()",
    CallContext.BACKWARD: "ThreadPoolExecutor(1).submit(run).result()",
    CallContext.COPIED: "ThreadPoolExecutor(1).submit(copy_context().run, run).result()",
}
"""The call of `run` without the harness.  Other contexts need the harness."""
HANGS = ("no answer", "deadlock")
HANG_LIMIT_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproducedFailure:
    """The failure that reproducers show."""

    fail: Fail
    case: Case
    libraries: tuple[str, ...]

    @property
    def oracle(self) -> str:
        return self.fail.signature.oracle

    @property
    def checked_by(self) -> str:
        """The oracle that checks the file, which has no exact run."""
        return self.traits.family or self.oracle

    @property
    def traits(self) -> Traits:
        return registry.traits_of(self.oracle)

    @property
    def kernel(self) -> str:
        """The kernel at fault; empty if no single one is."""
        return self.fail.signature.kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproProgram:
    """A reproducer in three parts.  Only the core may be reduced."""

    docstring: str
    core: str
    """Imports, definitions and `run`."""
    main: str
    """The comparison without the harness, and the `__main__` block."""
    environment: Environment = ()
    """Variables that must be set before the imports."""

    @property
    def text(self) -> str:
        """The whole file."""
        imports, body = _split(self.core)
        own, rest = _split(self.main)
        lines = sorted({*imports, *own}, key=_order)
        groups = [[line for line in lines if _is_standard(line) is standard] for standard in (True, False)]
        head = "\n\n".join("\n".join(group) for group in groups if group)
        parts = (body.strip("\n"), rest.strip("\n"))
        gap = "\n\n" if "\n" not in body.strip("\n").partition("\n\n")[0] else "\n\n\n"
        variables = [f'os.environ["{name}"] = "{value}"' for name, value in self.environment]
        first = "\n".join(["import os", "", *variables, "", ""]) if variables else ""
        return f"{self.docstring}\n{first}{head}{gap}" + "\n\n\n".join(parts) + "\n"


def entry(
    subject: ReproducedFailure,
    call: CallRecord,
    truths: dict[str, TruthRecord],
    mismatches: Iterable[FormMismatch] = (),
) -> ReproProgram:
    """Return the program that calls the op; `mismatches` are those of `result-structure`."""
    exact = subject.traits.proof in TOLERANT
    parameters = 'device="cuda", exact=False' if exact else 'device="cuda"'
    wrong = tuple(mismatches) if subject.traits.proof is Proof.STRUCTURE else ()
    # A cotangent has the shape of a wrong output, and would not fit the right one.
    is_forward = any(not place.name.startswith("d:") for place in wrong)
    statements = call.forward if is_forward and call.forward else call.statements
    blocks = [*call.preamble.blocks, _run(parameters, statements, _config_note(subject))]
    if exact:
        blocks.append('def truth():\n    return run("cpu", exact=True)')
    core = _core(call.preamble, blocks)
    if subject.case.context is not CallContext.MAIN:
        core = f"{core.rstrip()}\n\n\n{_importing(core)}\n"
    return ReproProgram(
        docstring=_docstring(subject, f"{subject.case.op_name}{_of(subject)}", subject.libraries),
        core=core,
        main=_main_of_structure(subject, wrong) if wrong else _main(subject, truths if exact else {}, of_library=True),
        environment=subject.case.environment,
    )


def entry_with_rows(subject: ReproducedFailure, rows: RowsRecord, truths: dict[str, TruthRecord]) -> ReproProgram:
    """Return the program that calls the op with the rows of the case, and with those of a trial."""
    call = rows.call
    note = _config_note(subject)
    run = _run('device="cuda", other_rows=False', call.statements, note)
    kept = ", ".join(f'"{name}": {list(axes)}' for name, axes in rows.kept.items())
    figures = {name: truths[name] for name in rows.kept if name in truths}
    allowed = ", ".join(f'"{name}": ({truth.whole:.4g}, {truth.row:.4g})' for name, truth in figures.items())
    constants = [
        f"KEPT = {{{kept}}}  # by result: an axis, and the compared indices on it, in run() and with other rows",
        f"OTHER_ROWS = {rows.change}".replace("'", '"'),
        f"TOLERANCE = {{{allowed}}}  # largest root-mean-square error: of the result, of its worst row",
    ]
    begin, checked = _begin_and_end(subject, of_library=True)
    alone = _ON_GPU.replace("@compare@", _OTHER_ROWS)
    head = "import sys\n\nimport torch\n\n" + "\n".join(laid_out(constant) for constant in constants)
    return ReproProgram(
        docstring=_docstring(subject, f"{subject.case.op_name}{_of(subject)}", subject.libraries),
        core=_core(call.preamble, [*call.preamble.blocks, run]),
        main=f"{head}\n\n\n{alone}\n\n\n{begin}        sys.exit(on_gpu())\n{checked}\n",
        environment=subject.case.environment,
    )


def kernel(
    subject: ReproducedFailure,
    launch: LaunchRecord,
    returned: dict[str, str],
    truths: dict[str, TruthRecord],
    *,
    exact: bool,
) -> ReproProgram:
    """Return the program of one launch; `returned` are expressions of the results by name."""
    results = ", ".join(f'"{name}": {expression}' for name, expression in returned.items())
    setup = launch.exact if exact else launch.drawn
    statements = (*setup, launch.call, f"return {{{results}}}")
    blocks = [*launch.preamble.blocks, _run('device="cuda"', statements, "")]
    main = _main(subject, truths, of_library=False)
    if truths:
        values = [f'"{name}": {truth.expression}' for name, truth in truths.items()]
        body = laid_out(f"return {{{', '.join(values)}}}", 1)
        truth = f'def truth():\n    """Return the results of the op\'s float64 reference."""\n{body}'
        imports, rest = _split(main)
        imports += needed_imports(truth.expression for truth in truths.values())
        main = "\n".join((*imports, "", truth, "\n", rest.strip("\n"))) + "\n"
    return ReproProgram(
        docstring=_docstring(subject, f"{launch.kernel} alone, from {subject.case.op_name}{_of(subject)}", ()),
        core=_core(launch.preamble, blocks),
        main=main,
    )


# --- the parts -------------------------------------------------------------------------------------------------------


def _core(preamble: Preamble, blocks: list[str]) -> str:
    body = joined(blocks)
    imports = [line for line in preamble.imports if _is_used(line, body)]
    return "\n".join([*imports, "", body]) + "\n"


def _importing(core: str) -> str:
    """Return a function that imports what other functions do: the main thread calls it, as a program would."""
    imports = dict.fromkeys(f"    import {module}" for module in inner_imports(core))
    doc = '    """Import the library in the main thread, as a program does."""'
    return "\n".join(("def import_library():", doc, *imports))


def inner_imports(core: str) -> Iterator[str]:
    """Yield the modules that functions import."""
    for function in (node for node in ast.walk(module_of(core)) if isinstance(node, ast.FunctionDef)):
        for node in ast.walk(function):
            match node:
                case ast.Import(names=names):
                    yield from (name.name for name in names)
                case ast.ImportFrom(module=str(module), level=0):
                    yield module
                case _:
                    pass


def _run(parameters: str, statements: tuple[str, ...], note: str) -> str:
    doc = [f'    """{note}"""'] if note else []
    return "\n".join([f"def run({parameters}):", *doc, *(laid_out(statement, 1) for statement in statements)])


def _config_note(subject: ReproducedFailure) -> str:
    """Return a sentence about the autotune configs, which the harness chooses and the code does not show."""
    chosen = ", ".join(f"config {number} of {name}" for name, number in subject.case.configs.items() if number)
    return f"On a GPU whose autotuner chooses {chosen} (counted from 0, after pruning)." if chosen else ""


def _of(subject: ReproducedFailure) -> str:
    return f" of {', '.join(subject.libraries)}" if subject.libraries else ""


def _docstring(subject: ReproducedFailure, what: str, libraries: tuple[str, ...]) -> str:
    needs = ["torch", "triton", *libraries]
    if subject.traits.proof in RAISING | {Proof.TRUTH, Proof.OTHER_ROWS}:
        how = f"Needs {', '.join(needs)}, and a GPU or kernel-harness, which emulates one."
    else:
        how = f"Needs {', '.join(needs)} and kernel-harness, which checks each memory access."
    about = f"{what}, as on {subject.case.device}."
    status = "Exit status: 1 if the bug shows, 0 if it is fixed, 125 if it cannot be tested here."
    title = _wrapped(f"{subject.oracle}: {subject.fail.message}.")
    return f'"""{_escaped(title)}\n\n{_escaped(_wrapped(f"{about} {how} {status}"))}\n"""\n'


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, COLUMNS, break_on_hyphens=False))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', "'''")


def _main_of_structure(subject: ReproducedFailure, mismatches: Iterable[FormMismatch]) -> str:
    forms = ", ".join(f'"{mismatch.name}": {_form(mismatch.expected)}' for mismatch in mismatches)
    expected = f"EXPECTED = {{{forms}}}  # by result: the element type and shape in the definition"
    alone = _ON_GPU.replace("@compare@", _STRUCTURE)
    begin, checked = _begin_and_end(subject, of_library=True)
    return f"import sys\n\nimport torch\n\n{expected}\n\n\n{alone}\n\n\n{begin}        sys.exit(on_gpu())\n{checked}\n"


def _form(form: ResultForm | None) -> str:
    return "None" if form is None else f'("{form.kind}", {form.shape})'


def _main(subject: ReproducedFailure, truths: dict[str, TruthRecord], *, of_library: bool) -> str:
    """Return the main part; `run` is called in the case's context."""
    context = subject.case.context if of_library else CallContext.MAIN
    main = _main_in_place(subject, truths, of_library=of_library, is_alone=context in CALLS)
    if context is CallContext.MAIN or context not in CALLS:
        return main
    imports = "from concurrent.futures import ThreadPoolExecutor\n"
    imports += "from contextvars import copy_context\n" if context is CallContext.COPIED else ""
    # The first `try` is that of `on_gpu`; the harness imports the library by itself.
    loaded = main.replace("    try:\n", "    try:\n        import_library()\n", 1) if "def on_gpu" in main else main
    return imports + loaded.replace("run()", CALLS[context])


def _main_in_place(
    subject: ReproducedFailure, truths: dict[str, TruthRecord], *, of_library: bool, is_alone: bool
) -> str:
    """Return the main part; `is_alone` if a GPU shows the failure without the harness."""
    begin, checked = _begin_and_end(subject, of_library=of_library)
    if subject.traits.proof is Proof.TRUTH and truths and is_alone:
        figures = ", ".join(f'"{name}": ({truth.whole:.4g}, {truth.row:.4g})' for name, truth in truths.items())
        tolerance = f"TOLERANCE = {{{figures}}}  # largest root-mean-square error: of the result, of its worst row"
        alone = f"{_ON_GPU}\n\n\n{begin}        sys.exit(on_gpu())\n"
        return f"import sys\n\nimport torch\n\n{tolerance}\n\n\n{alone.replace('@compare@', _COMPARE)}{checked}\n"
    if truths:
        figures = ", ".join(f'"{name}": ({truth.whole:.4g}, {truth.row:.4g})' for name, truth in truths.items())
        begin = f"TOLERANCE = {{{figures}}}\n\n\n{begin}"
    if subject.traits.proof in RAISING and is_alone:
        hangs = subject.fail.signature.place.startswith(HANGS)
        body = _HANGING if hangs else _RAISING
        right = "0"
        if subject.traits.proof is Proof.GPU_LIMIT:
            right = f"0 if torch.cuda.get_device_capability() == {subject.case.device.capability} else 125"
        imports = "import faulthandler\nimport sys\n\nimport torch\n" if hangs else "import sys\n\nimport torch\n"
        alone = _ON_GPU.replace("@compare@", body.replace("@right@", right))
        return f"{imports}\n\n{alone}\n\n\n{begin}        sys.exit(on_gpu())\n{checked}\n"
    shows = "checked memory accesses show this" if is_alone else "the harness calls it in such a process"
    lacking = f'        print("only {shows}: install kernel-harness")\n        sys.exit(125)\n'
    return f"import sys\n\n\n{begin}{lacking}{checked}\n"


def _begin_and_end(subject: ReproducedFailure, *, of_library: bool) -> tuple[str, str]:
    """Return the main part up to what runs without the harness, and what follows that."""
    arguments = ", ".join(_judge_arguments(subject, of_library=of_library))
    call = laid_out(f"status = repro_runtime.judge({arguments})", 1)
    begin = 'if __name__ == "__main__":\n    try:\n        from harness import repro_runtime\n    except ImportError:\n'
    return begin, f"{call}\n    sys.exit(status)"


_ON_GPU = """def on_gpu():
    if not torch.cuda.is_available():
        print("needs a GPU, or kernel-harness, which emulates one")
        return 125
@compare@"""
_COMPARE = """    try:
        got, right, status = run(), truth(), 0
    except ImportError as error:
        print(error)
        return 125
    for name, (whole, row) in TOLERANCE.items():
        error = got[name].detach().cpu().double().reshape(right[name].shape) - right[name]
        rows = error.flatten(0, -2) if error.dim() > 1 else error.reshape(-1).split(64)
        sizes = [error.square().mean().sqrt() / whole, *(one.square().mean().sqrt() / row for one in rows)]
        print(f"{name} is {float(max(sizes)):.3g} times the tolerance away from the float64 reference")
        status |= not all(size <= 1 for size in sizes)
    return int(status)"""
_OTHER_ROWS = """    try:
        here, there, status = run(), run(other_rows=True), 0
    except ImportError as error:
        print(error)
        return 125
    for name, axes in KEPT.items():
        first, second = here[name], there[name]
        for axis, own, other in axes:
            first = first.index_select(axis, torch.tensor(own, device=first.device))
            second = second.index_select(axis, torch.tensor(other, device=second.device))
        differ = (first != second) & ~(first.isnan() & second.isnan())
        print(f"{name}: {int(differ.sum())} of {differ.numel()} elements differ with other rows")
        status |= bool(differ.any())
    return int(status)"""
_STRUCTURE = """    try:
        got, status = run(), 0
    except ImportError as error:
        print(error)
        return 125
    for name, expected in EXPECTED.items():
        value = got.get(name)
        form = None if value is None else (str(value.dtype).removeprefix("torch."), tuple(value.shape))
        print(f"{name} is {form} where the definition gives {expected}")
        status |= form != expected
    return int(status)"""
_RAISING = """    try:
        run()
        torch.cuda.synchronize()
    except ImportError as error:
        print(error)
        return 125
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        return 1
    return @right@"""
_HANGING = f"""    faulthandler.dump_traceback_later({HANG_LIMIT_S}, exit=True)  # with status 1
{_RAISING}"""


def _judge_arguments(subject: ReproducedFailure, *, of_library: bool) -> list[str]:
    """Return the arguments of `harness.repro_runtime.judge`."""
    case = subject.case
    arguments = ["__file__", f'oracle="{subject.checked_by}"']
    if subject.kernel:
        arguments.append(f'kernel="{subject.kernel}"')
    arguments.append(f'device="{case.device.slug}"')
    if case.device.sm_count != catalogue.find(case.device.slug).sm_count:
        arguments.append(f"sm_count={case.device.sm_count}")
    configs = {name: number for name, number in case.configs.items() if number}
    if configs and of_library:
        arguments.append(f"configs={configs}".replace("'", '"'))
    for name, value, usual in (
        ("lane_fill", case.lane_fill, LaneFill.ZERO),
        ("order", case.order, ProgramOrder.FORWARD),
        ("scale", case.scale, Scale.USUAL),
    ):
        if value is not usual:
            arguments.append(f'{name}="{value}"')
    if case.context is not CallContext.MAIN and of_library:
        arguments.append(f'context="{case.context}"')
    if case.environment and of_library:
        arguments.append(f"environment={dict(case.environment)}".replace("'", '"'))
    if case.seed and (case.order is ProgramOrder.SHUFFLED or subject.traits.proof is Proof.COMPARED_RUNS):
        arguments.append(f"seed={case.seed}")
    return arguments


# --- imports ---------------------------------------------------------------------------------------------------------

STANDARD = (
    *("base64", "collections", "concurrent", "contextvars", "faulthandler", "functools", "itertools", "math", "sys"),
    *("types", "typing", "zlib"),
)


def _split(text: str) -> tuple[list[str], str]:
    """Split a text into its first import statements and the rest."""
    lines = text.splitlines()
    first = next((n for n, line in enumerate(lines) if line and not line.startswith(("import ", "from "))), len(lines))
    return [line for line in lines[:first] if line], "\n".join(lines[first:])


def _is_standard(line: str) -> bool:
    return line.split()[1].partition(".")[0] in STANDARD


def _order(line: str) -> tuple[bool, str]:
    return line.startswith("from "), line.split()[1]


def _is_used(line: str, body: str) -> bool:
    name = line.rpartition(" as ")[2] if " as " in line else line.rsplit(maxsplit=1)[-1].partition(".")[0]
    names = (
        re.findall(r"\w+", line.partition(" import ")[2]) if line.startswith("from ") and " as " not in line else [name]
    )
    return any(re.search(rf"\b{name}\b", body) for name in names)
