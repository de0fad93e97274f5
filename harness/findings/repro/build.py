"""From a finding to files: the case runs again and is written down, each form is confirmed in a fresh process."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import wire
from harness.errors import UsageError
from harness.findings.reduction import reduce_kernel
from harness.findings.replay import Recorded
from harness.findings.repro import program_writer
from harness.findings.repro.code_layout import retouched
from harness.findings.repro.pieces import CasePieces, LaunchRecord, TruthRecord, place
from harness.findings.repro.program_writer import ReproducedFailure, ReproProgram
from harness.findings.repro.reduction_check import Shows, written
from harness.findings.rerun import options_for
from harness.model.run import Run, UndefinedLanes
from harness.model.verdict import Fail
from harness.oracles import registry
from harness.oracles.float64_values import is_wrong
from harness.oracles.memory_events import place_of
from harness.repro_runtime import THERE, Asked, FileRunner
from harness.repro_runtime.judge_file import at_fault
from harness.search.judge import Examination
from harness.search.session import FOLDER, Session

ENGINE = "harness.findings.repro.recording_engine:RecordingEngine"
REDUCTION_S = 120.0
CANDIDATE_LIMIT_S = 10.0
CONFIRMATION_LIMIT_S = 180.0
NO_KERNEL = {
    "sm-invariance": "it shows in what the host makes of the number of SMs",
    "config-invariance": "it shows only between two autotune configs",
    "order-invariance": "it shows only between two orders of programs, beyond what rounding of the whole op explains",
}
"""Why a launch alone cannot show what these oracles find."""
Tell = Callable[[str], object]


class Form(StrEnum):
    """What a reproducer calls."""

    ENTRY = "entry point"
    KERNEL = "kernel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproducer:
    """One file's text, and whether it does what it says."""

    form: Form
    text: str
    doubt: str = ""
    """Why it is not confirmed; empty where it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What came of one finding."""

    subject: ReproducedFailure
    files: tuple[Reproducer, ...]
    missing: tuple[str, ...]
    """Why a form that was asked for is not among them."""


def make(recorded: Recorded, libraries: tuple[str, ...], forms: tuple[Form, ...], tell: Tell) -> Made:
    """Reproducers of one recorded case, each run in a fresh process.

    Raises:
        UsageError: the case does not show what is recorded any more.
    """
    options = options_for(recorded, libraries=libraries, engine=ENGINE)
    with Session(options) as session:
        tell(f"running {recorded.case}")
        examined = _examine(recorded, session)
        fail = _fail(recorded, examined)
        record = wire.from_json(place(FOLDER / "scratch", recorded.case).read_text(encoding="ascii"), CasePieces)
        paths = session.library_paths
    subject = ReproducedFailure(fail=fail, case=recorded.case, libraries=options.libraries)
    maker = _Maker(subject, examined.run, record, paths, tell)
    files: list[Reproducer] = []
    missing: list[str] = []
    if Form.KERNEL in forms:
        made = maker.kernel()
        if isinstance(made, Reproducer):
            files.append(made)
        else:
            missing.append(f"no kernel-level file: {made}")
    if Form.ENTRY in forms or not files:
        files.insert(0, maker.entry(needs=recorded.needs is not None))
    return Made(subject=subject, files=tuple(files), missing=tuple(missing))


def _examine(recorded: Recorded, session: Session) -> Examination:
    (op,) = session.options.ops
    before = (recorded.needs,) if recorded.needs else ()
    judge = session.judge if recorded.signature is None else session.judge.only(recorded.signature.oracle)
    examined = judge.examine(op, recorded.case, lambda wanted: session.pool.run_alone(wanted, before))
    if recorded.signature is not None and recorded.signature.oracle == "resources":
        session.compiler.settle()
        examined = judge.judge(op, examined.run, {})
    return examined


def _fail(recorded: Recorded, examined: Examination) -> Fail:
    """The failure on record; in another version of the library its place may be another line of the kernel."""
    signature = recorded.signature
    found = [fail for fail in examined.fails if signature is None or fail.signature == signature]
    if signature is not None:
        of_kernel = (signature.oracle, signature.kernel)
        found += [fail for fail in examined.fails if (fail.oracle, fail.signature.kernel) == of_kernel]
    if not found:
        seen = "; ".join(fail.message for fail in examined.fails) or "; ".join(registry.reasons(examined.verdicts))
        raise UsageError(f"{recorded.id} does not show {signature or 'any failure'} any more ({seen or 'it passes'})")
    return found[0]


class _Maker:
    """Writes and confirms the forms of one subject."""

    def __init__(
        self, subject: ReproducedFailure, run: Run, record: CasePieces, paths: tuple[str, ...], tell: Tell
    ) -> None:
        self._subject = subject
        self._run = run
        self._record = record
        self._paths = paths
        self._tell = tell
        case = subject.case
        self._asked = Asked(
            oracle=subject.oracle,
            kernel=subject.kernel,
            device=case.device,
            lane_fill=case.lane_fill,
            order=case.order,
            scale=case.scale,
            seed=case.seed,
        )

    # --- the op's call ---

    def entry(self, *, needs: bool) -> Reproducer:
        """The entry-point form."""
        exact = self._subject.oracle in program_writer.NEED_TOLERANCE
        call = self._record.defined if exact else self._record.plain
        program = program_writer.entry(self._subject, call, self._truths(None))
        doubts = [f"could not be written down: {', '.join(call.preamble.missing)}"] if call.preamble.missing else []
        if needs:
            doubts.append("the failure needs another case to run first in the same process")
        return self._confirmed(Form.ENTRY, program.text, doubts)

    # --- one launch ---

    def kernel(self) -> Reproducer | str:
        """The kernel-level form, reduced; or why there is none."""
        if reason := NO_KERNEL.get(self._subject.oracle):
            return reason
        launch, returned = self._launch()
        if launch is None:
            return "no launch of a Triton kernel is at fault, or it never came to the driver"
        if launch.preamble.missing:
            return f"of {launch.kernel}, what cannot be written down is {', '.join(launch.preamble.missing)}"
        if any(not truth.expression for truth in self._truths(returned).values()):
            return "the right values of its results are too many to write down"
        with (
            TemporaryDirectory(prefix="harness-repro-") as folder,
            FileRunner(self._asked, time_limit_s=CANDIDATE_LIMIT_S) as bench,
        ):
            found = self._that_shows(launch, returned, bench, Path(folder))
            if found is None:
                program = self._program(launch, returned, exact=True)
                lost = f", without {', '.join(launch.exact_missing)}" if launch.exact_missing else ""
                return self._confirmed(Form.KERNEL, program.text, [f"the launch alone does not show it{lost}"])
            program, examined = found
            if (
                self._subject.oracle not in program_writer.OF_ONE_GPU
            ):  # what a smaller kernel needs of the GPU is another thing
                program = self._reduced(program, examined, bench, Path(folder), returned)
        return self._confirmed(Form.KERNEL, program.text, [])

    def _program(self, launch: LaunchRecord, returned: dict[str, str], *, exact: bool) -> ReproProgram:
        return program_writer.kernel(self._subject, launch, returned, self._truths(returned), exact=exact)

    def _that_shows(
        self, launch: LaunchRecord, returned: dict[str, str], bench: FileRunner, folder: Path
    ) -> tuple[ReproProgram, Examination] | None:
        """The first way to write the launch that shows the failure: drawn values, or the exact ones."""
        for exact in (False, True):
            program = self._program(launch, returned, exact=exact)
            look = bench.examine if self._subject.oracle in program_writer.OF_ONE_GPU else bench.glance
            examined = look(written(program.core + self._expected(returned), folder))
            if at_fault(examined, self._asked):
                return program, examined
        return None

    def _reduced(
        self, program: ReproProgram, whole: Examination, bench: FileRunner, folder: Path, returned: dict[str, str]
    ) -> ReproProgram:
        shows = Shows(program.core, whole, bench, folder, self._expected(returned))
        if self._subject.oracle in program_writer.NEED_TOLERANCE:
            shows.keep_results()
        began = time.monotonic()
        core = reduce_kernel(program.core, shows, seconds=REDUCTION_S, tell=self._tell)
        tidy = retouched(core, "run")
        lines = core.count("\n")
        self._tell(
            f"reduced {program.core.count(chr(10))} lines to {lines} in {time.monotonic() - began:.0f} s, "
            f"{shows.tried} programs tried"
        )
        return replace(program, core=tidy if shows(tidy) else core)

    def _launch(self) -> tuple[LaunchRecord | None, dict[str, str]]:
        """The launch at fault, and what of it a reproducer returns."""
        signature = self._subject.fail.signature
        for event in self._run.memory:
            site = event.site
            named = site.kernel == signature.kernel and signature.place in {place_of(site), site.argument}
            if named and not isinstance(event, UndefinedLanes) and site.launch < len(self._record.launches):
                launch = self._record.launches[site.launch]
                variable = launch.arguments.get(site.argument)
                return launch, {site.argument: variable} if variable else {}
        if names := self._results():
            for launch in reversed(self._record.launches):
                if held := {name: launch.results[name] for name in names if name in launch.results}:
                    return launch, held
        launches = [one for one in self._record.launches if one.kernel == signature.kernel]
        return (launches[-1], {}) if launches else (None, {})

    def _results(self) -> list[str]:
        """The op's results that are at fault."""
        signature = self._subject.fail.signature
        named = [one.name for one in self._run.results if one.writer == (signature.kernel, signature.place)]
        wrong = [one.name for one in filter(is_wrong, self._run.results) if one.name in named]
        return wrong or named or [one.name for one in self._run.results if one.name == signature.place]

    def _truths(self, returned: dict[str, str] | None) -> dict[str, TruthRecord]:
        """Of the results that are returned, or that are at fault."""
        if self._subject.oracle not in program_writer.NEED_TOLERANCE:
            return {}
        names = list(self._record.truths) if returned is None else list(returned)
        if returned is None and self._subject.oracle == program_writer.VALUES:
            names = self._results()
        return {name: self._record.truths[name] for name in names if name in self._record.truths}

    def _expected(self, returned: dict[str, str]) -> str:
        """What a program that is looked at has beside its core: what its results should be, which is not reduced."""
        truths = self._truths(returned)
        if not truths:
            return ""
        values = ", ".join(f"{name!r}: {one.expression}" for name, one in truths.items())
        figures = {name: (one.whole, one.row) for name, one in truths.items()}
        return f"\n\ndef truth():\n    return {{{values}}}\n\n\nTOLERANCE = {figures}\n"

    # --- confirmation ---

    def _confirmed(self, form: Form, text: str, doubts: list[str]) -> Reproducer:
        """Run in a fresh process; what is not confirmed says so in its first line."""
        self._tell(f"confirming the {form} form in a fresh process")
        status, output = _run_alone(text, self._paths)
        if status == THERE:
            return Reproducer(form=form, text=text)
        doubt = "; ".join([*doubts, f"run in a fresh process, it ended with status {status} ({output})"])
        return Reproducer(form=form, text=f"# UNCONFIRMED: {doubt}\n{text}", doubt=doubt)


def _run_alone(text: str, paths: tuple[str, ...]) -> tuple[int, str]:
    with TemporaryDirectory(prefix="harness-repro-") as folder:
        path = Path(folder, "repro.py")
        path.write_text(text, encoding="utf-8")
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([*paths, *filter(None, sys.path)])}
        try:
            done = subprocess.run(
                [sys.executable, str(path)],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=CONFIRMATION_LIMIT_S,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return -1, f"no end within {CONFIRMATION_LIMIT_S:g} s"
    lines = (done.stdout + done.stderr).strip().splitlines()
    return done.returncode, lines[-1] if lines else "no output"
