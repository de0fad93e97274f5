"""Reproducers put together of a record's pieces: what the file says of itself, `run`, and what running it does."""

import re
import textwrap
from dataclasses import dataclass

from harness.devices import catalogue
from harness.findings.repro.code_layout import COLUMNS, joined, laid_out, needed_imports
from harness.findings.repro.pieces import CallRecord, LaunchRecord, Preamble, TruthRecord
from harness.model.case import Case, LaneFill, ProgramOrder, Scale
from harness.model.verdict import Fail

VALUES = "float64-values"
NEED_TOLERANCE = frozenset({VALUES, "sm-invariance", "config-invariance", "order-invariance"})
"""Oracles that compare results beyond rounding, and so need to know what rounding explains."""
RAISE = frozenset({"completes", "launch-limits", "resources", "scratch-memory"})
"""Oracles whose failures end in an exception on a real GPU too."""
OF_ONE_GPU = RAISE - {"completes"}
"""Those of them that depend on the GPU's limits."""
HANGS = ("no answer", "deadlock")
HANG_LIMIT_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproducedFailure:
    """The failure that files are written of."""

    fail: Fail
    case: Case
    libraries: tuple[str, ...]

    @property
    def oracle(self) -> str:
        """Its name."""
        return self.fail.signature.oracle

    @property
    def kernel(self) -> str:
        """The kernel at fault; empty where no single one is."""
        return self.fail.signature.kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproProgram:
    """A reproducer in three parts, of which only the middle may be reduced."""

    says: str
    core: str
    """Imports, definitions and `run`."""
    acts: str

    @property
    def text(self) -> str:
        """The file."""
        imports, body = _split(self.core)
        own, rest = _split(self.acts)
        lines = sorted({*imports, *own}, key=_order)
        groups = [[line for line in lines if _is_standard(line) is standard] for standard in (True, False)]
        head = "\n\n".join("\n".join(group) for group in groups if group)
        parts = (body.strip("\n"), rest.strip("\n"))
        gap = "\n\n" if "\n" not in body.strip("\n").partition("\n\n")[0] else "\n\n\n"
        return f"{self.says}\n{head}{gap}" + "\n\n\n".join(parts) + "\n"


def entry(subject: ReproducedFailure, call: CallRecord, truths: dict[str, TruthRecord]) -> ReproProgram:
    """The op's call as plain code."""
    exact = subject.oracle in NEED_TOLERANCE
    parameters = 'device="cuda", exact=False' if exact else 'device="cuda"'
    blocks = [*call.preamble.blocks, _run(parameters, call.statements, _where(subject))]
    if exact:
        blocks.append('def truth():\n    return run("cpu", exact=True)')
    core = _core(call.preamble, blocks)
    return ReproProgram(
        says=_says(subject, f"{subject.case.op_name}{_of(subject)}", subject.libraries),
        core=core,
        acts=_acts(subject, truths if exact else {}, of_library=True),
    )


def kernel(
    subject: ReproducedFailure,
    launch: LaunchRecord,
    returned: dict[str, str],
    truths: dict[str, TruthRecord],
    *,
    exact: bool,
) -> ReproProgram:
    """One launch as plain code; `returned` are the results by name, as expressions."""
    results = ", ".join(f'"{name}": {expression}' for name, expression in returned.items())
    made = launch.exact if exact else launch.drawn
    statements = (*made, launch.call, f"return {{{results}}}")
    blocks = [*launch.preamble.blocks, _run('device="cuda"', statements, "")]
    acts = _acts(subject, truths, of_library=False)
    if truths:
        values = [f'"{name}": {truth.expression}' for name, truth in truths.items()]
        body = laid_out(f"return {{{', '.join(values)}}}", 1)
        told = f'def truth():\n    """What the definition of the whole op gives in float64."""\n{body}'
        imports, rest = _split(acts)
        imports += needed_imports(truth.expression for truth in truths.values())
        acts = "\n".join((*imports, "", told, "\n", rest.strip("\n"))) + "\n"
    return ReproProgram(
        says=_says(subject, f"{launch.kernel} alone, from {subject.case.op_name}{_of(subject)}", ()),
        core=_core(launch.preamble, blocks),
        acts=acts,
    )


# --- the parts -------------------------------------------------------------------------------------------------------


def _core(preamble: Preamble, blocks: list[str]) -> str:
    body = joined(blocks)
    imports = [line for line in preamble.imports if _is_used(line, body)]
    return "\n".join([*imports, "", body]) + "\n"


def _run(parameters: str, statements: tuple[str, ...], where: str) -> str:
    doc = [f'    """{where}"""'] if where else []
    return "\n".join([f"def run({parameters}):", *doc, *(laid_out(one, 1) for one in statements)])


def _where(subject: ReproducedFailure) -> str:
    """Autotune configs are no part of the code: they are what the harness chooses."""
    chosen = ", ".join(f"{name} with config {number}" for name, number in subject.case.configs.items() if number)
    return f"On a GPU that chooses {chosen} (counted from 0, as the autotuner prunes them)." if chosen else ""


def _of(subject: ReproducedFailure) -> str:
    return f" of {', '.join(subject.libraries)}" if subject.libraries else ""


def _says(subject: ReproducedFailure, what: str, libraries: tuple[str, ...]) -> str:
    needs = ["torch", "triton", *libraries]
    if subject.oracle in {VALUES, *RAISE}:
        how = f"Needs {', '.join(needs)}, and a GPU or kernel-harness, which pretends to be one."
    else:
        how = f"Needs {', '.join(needs)} and kernel-harness: only a watched memory shows it."
    about = f"{what}, as on {subject.case.device}."
    status = "Exit status: 1 while it is so, 0 once it is mended, 125 where that cannot be told."
    title = _wrapped(f"{subject.oracle}: {subject.fail.message}.")
    return f'"""{_escaped(title)}\n\n{_escaped(_wrapped(f"{about} {how} {status}"))}\n"""\n'


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, COLUMNS, break_on_hyphens=False))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', "'''")


def _acts(subject: ReproducedFailure, truths: dict[str, TruthRecord], *, of_library: bool) -> str:
    asked = laid_out(f"sys.exit(repro_runtime.judge({', '.join(_asked(subject, of_library=of_library))}))", 1)
    begin = 'if __name__ == "__main__":\n    try:\n        from harness import repro_runtime\n    except ImportError:\n'
    if subject.oracle == VALUES and truths:
        figures = ", ".join(f'"{name}": ({truth.whole:.4g}, {truth.row:.4g})' for name, truth in truths.items())
        tolerance = f"TOLERANCE = {{{figures}}}  # root-mean-square error: over the result, over its worst row"
        alone = f"{_ON_GPU}\n\n\n{begin}        sys.exit(on_gpu())\n"
        return f"import sys\n\nimport torch\n\n{tolerance}\n\n\n{alone.replace('@compare@', _COMPARE)}{asked}\n"
    if truths:
        figures = ", ".join(f'"{name}": ({truth.whole:.4g}, {truth.row:.4g})' for name, truth in truths.items())
        begin = f"TOLERANCE = {{{figures}}}\n\n\n{begin}"
    if subject.oracle in RAISE:
        hangs = subject.fail.signature.place.startswith(HANGS)
        body = _HANGING if hangs else _RAISING
        right = "0"
        if subject.oracle in OF_ONE_GPU:
            right = f"0 if torch.cuda.get_device_capability() == {subject.case.device.capability} else 125"
        imports = "import faulthandler\nimport sys\n\nimport torch\n" if hangs else "import sys\n\nimport torch\n"
        alone = _ON_GPU.replace("@compare@", body.replace("@right@", right))
        return f"{imports}\n\n{alone}\n\n\n{begin}        sys.exit(on_gpu())\n{asked}\n"
    lacking = '        print("only a watched memory shows this: install kernel-harness")\n        sys.exit(125)\n'
    return f"import sys\n\n\n{begin}{lacking}{asked}\n"


_ON_GPU = """def on_gpu():
    if not torch.cuda.is_available():
        print("needs a GPU, or kernel-harness, which pretends to be one")
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
        print(f"{name} is {float(max(sizes)):.3g} tolerances from its definition in float64")
        status |= not all(size <= 1 for size in sizes)
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


def _asked(subject: ReproducedFailure, *, of_library: bool) -> list[str]:
    """The arguments of `harness.repro_runtime.judge`."""
    case = subject.case
    given = ["__file__", f'oracle="{subject.oracle}"']
    if subject.kernel:
        given.append(f'kernel="{subject.kernel}"')
    given.append(f'device="{case.device.slug}"')
    if case.device.sm_count != catalogue.find(case.device.slug).sm_count:
        given.append(f"sm_count={case.device.sm_count}")
    configs = {name: number for name, number in case.configs.items() if number}
    if configs and of_library:
        given.append(f"configs={configs}".replace("'", '"'))
    for name, value, usual in (
        ("lane_fill", case.lane_fill, LaneFill.ZERO),
        ("order", case.order, ProgramOrder.FORWARD),
        ("scale", case.scale, Scale.USUAL),
    ):
        if value is not usual:
            given.append(f'{name}="{value}"')
    if case.seed and (case.order is ProgramOrder.SHUFFLED or subject.oracle in NEED_TOLERANCE - {VALUES}):
        given.append(f"seed={case.seed}")
    return given


# --- imports ---------------------------------------------------------------------------------------------------------

STANDARD = ("base64", "collections", "faulthandler", "math", "sys", "types", "typing", "zlib", "functools", "itertools")


def _split(text: str) -> tuple[list[str], str]:
    """The import statements that a text begins with, and the rest."""
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
    return any(re.search(rf"\b{one}\b", body) for one in names)
