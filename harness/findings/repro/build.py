"""From a finding to reproducer files: the case is recorded, and each file is confirmed in a fresh process."""

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
from harness.findings.recorded_cases import Recorded, is_recorded_launch
from harness.findings.reduction import reduce_kernel
from harness.findings.repro import program_writer
from harness.findings.repro.code_layout import retouched
from harness.findings.repro.pieces import CasePieces, LaunchRecord, TruthRecord, record_path
from harness.findings.repro.program_writer import ReproducedFailure, ReproProgram
from harness.findings.repro.reduction_check import ShowsSameFailure, written
from harness.findings.rerun import options_for
from harness.model.case import HARNESS_FOLDER
from harness.model.paired_run import RunRequest
from harness.model.run import Run, UndefinedLanes
from harness.model.verdict import Fail
from harness.oracles import registry
from harness.oracles.float64_values import is_wrong
from harness.oracles.lasting_places import lasting_place
from harness.oracles.memory_events import place_of
from harness.oracles.traits import Need, Proof
from harness.repro_runtime import PRESENT, CheckRequest, FileRunner
from harness.repro_runtime.judge_file import at_fault
from harness.repro_runtime.request import file_case
from harness.search.engine_choice import custom_engine
from harness.search.judge import Examination
from harness.search.session import Session
from harness.settings import Settings

ENGINE = custom_engine("harness.findings.repro.recording_engine:RecordingEngine")
REDUCTION_S = 120.0
CANDIDATE_LIMIT_S = 10.0
CONFIRMATION_LIMIT_S = 180.0
Report = Callable[[str], object]


class Form(StrEnum):
    """The two forms of a reproducer: the library's entry point, or the kernel alone."""

    ENTRY = "entry point"
    KERNEL = "kernel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproducer:
    """The text of one file, and whether it is confirmed."""

    form: Form
    text: str
    problem: str = ""
    """Why it is not confirmed; empty if it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproducers:
    """The reproducers of one finding."""

    subject: ReproducedFailure
    files: tuple[Reproducer, ...]
    missing: tuple[str, ...]
    """The reason for each requested form that does not exist."""


def make(
    recorded: Recorded,
    libraries: tuple[str, ...],
    forms: tuple[Form, ...],
    report: Report,
    settings: Settings = Settings(),
) -> Reproducers:
    """Write the reproducers of one recorded case, and run each in a fresh process.

    Raises:
        UsageError: the case does not show the recorded failure any more.
    """
    options = options_for(recorded, libraries=libraries, engine=ENGINE, settings=settings)
    with Session(options) as session:
        report(f"running {recorded.case}")
        examined = _examine(recorded, session)
        fail = _fail(recorded, examined)
        place = record_path(HARNESS_FOLDER / "scratch", recorded.case)
        record = wire.from_json(place.read_text(encoding="ascii"), CasePieces)
        paths = session.library_paths
    if any(launch.model for launch in examined.run.launches):
        raise UsageError(
            f"{recorded.id} is in a JAX call, which cannot be written as a single file: use harness replay"
        )
    subject = ReproducedFailure(fail=fail, case=recorded.case, libraries=options.libraries)
    maker = _Maker(subject, examined.run, record, paths, report)
    files: list[Reproducer] = []
    missing: list[str] = []
    if Form.KERNEL in forms:
        reproducer = maker.kernel()
        if isinstance(reproducer, Reproducer):
            files.append(reproducer)
        else:
            missing.append(f"no kernel-level file: {reproducer}")
    if is_recorded_launch(recorded.case):
        missing.append("no entry-point file: harness run recorded one launch, not the code around it")
    elif Form.ENTRY in forms or not files:
        files.insert(0, maker.entry(needs_other_case=recorded.preceding_case is not None))
    return Reproducers(subject=subject, files=tuple(files), missing=tuple(missing))


def _examine(recorded: Recorded, session: Session) -> Examination:
    (op,) = session.options.ops
    before = (recorded.preceding_case,) if recorded.preceding_case else ()
    judge = session.judge if recorded.signature is None else session.judge.only(recorded.signature.oracle)

    def execute(request: RunRequest) -> Run:
        return session.pool.run_alone(request, before)

    examined = judge.examine(op, recorded.case, execute)
    if recorded.signature is not None and Need.RESOURCES in registry.traits_of(recorded.signature.oracle).needs:
        examined = judge.judge_when_compiled(op, examined.run, execute)
    return examined


def _fail(recorded: Recorded, examined: Examination) -> Fail:
    """Return the recorded failure; in another version of the library its line may have moved."""
    signature = recorded.signature
    fails = [fail for fail in examined.fails if signature is None or registry.is_shown_by(signature, fail.signature)]
    if signature is not None:
        of_kernel = (signature.oracle, signature.kernel)
        fails += [fail for fail in examined.fails if (fail.oracle, fail.signature.kernel) == of_kernel]
    if not fails:
        seen = "; ".join(fail.message for fail in examined.fails) or "; ".join(registry.reasons(examined.verdicts))
        raise UsageError(f"{recorded.id} does not show {signature or 'any failure'} any more ({seen or 'it passes'})")
    return fails[0]


class _Maker:
    """Writes and confirms both forms."""

    def __init__(
        self, subject: ReproducedFailure, run: Run, record: CasePieces, paths: tuple[str, ...], report: Report
    ) -> None:
        self._subject = subject
        self._run = run
        self._record = record
        self._paths = paths
        self._report = report
        case = subject.case
        self._request = CheckRequest(
            oracle=subject.checked_by,
            kernel=subject.kernel,
            settings=file_case(
                case.device, lane_fill=case.lane_fill, order=case.order, scale=case.scale, seed=case.seed
            ),
        )

    # --- the op's call ---

    def entry(self, *, needs_other_case: bool) -> Reproducer:
        """Return the entry-point form."""
        exact = self._subject.traits.proof in program_writer.TOLERANT
        call = self._record.defined if exact else self._record.plain
        rows = self._record.rows if self._subject.traits.proof is Proof.OTHER_ROWS else None
        if rows is not None:
            call, program = rows.call, program_writer.entry_with_rows(self._subject, rows, dict(self._record.truths))
        else:
            program = program_writer.entry(self._subject, call, self._truths(None), self._run.mismatches)
        problems = [f"cannot be written as code: {', '.join(call.preamble.missing)}"] if call.preamble.missing else []
        if needs_other_case:
            problems.append("the failure needs another case to run first in the same process")
        if self._subject.traits.proof is Proof.TRUTH and not any(map(is_wrong, self._run.results)):
            problems.append("rounding hides the wrong value: it shows in exact arithmetic only, which a file has not")
        return self._confirmed(Form.ENTRY, program.text, problems)

    # --- one launch ---

    def kernel(self) -> Reproducer | str:
        """Return the kernel-level form, reduced; or the reason if there is none."""
        if reason := self._subject.traits.more_than_launch:
            return reason
        launch, returned = self._launch()
        if launch is None:
            return "no launch of a Triton kernel is at fault, or it never reached the driver"
        if launch.preamble.missing:
            return f"parts of {launch.kernel} cannot be written as code: {', '.join(launch.preamble.missing)}"
        if any(not truth.expression for truth in self._truths(returned).values()):
            return "the expected values of its results are too large for a file"
        with (
            TemporaryDirectory(prefix="harness-repro-") as folder,
            FileRunner(self._request, time_limit_s=CANDIDATE_LIMIT_S) as runner,
        ):
            failing = self._failing_program(launch, returned, runner, Path(folder))
            if failing is None:
                program = self._program(launch, returned, exact=True)
                lost = f", without {', '.join(launch.exact_missing)}" if launch.exact_missing else ""
                return self._confirmed(Form.KERNEL, program.text, [f"the launch alone does not show it{lost}"])
            program, examined = failing
            # A smaller kernel needs other registers and less shared memory: it would not show a limit of the GPU.
            if self._subject.traits.proof is not Proof.GPU_LIMIT:
                program = self._reduced(program, examined, runner, Path(folder), returned)
        return self._confirmed(Form.KERNEL, program.text, [])

    def _program(self, launch: LaunchRecord, returned: dict[str, str], *, exact: bool) -> ReproProgram:
        return program_writer.kernel(self._subject, launch, returned, self._truths(returned), exact=exact)

    def _failing_program(
        self, launch: LaunchRecord, returned: dict[str, str], runner: FileRunner, folder: Path
    ) -> tuple[ReproProgram, Examination] | None:
        """Try drawn argument values, then the exact ones; return the first program that shows the failure."""
        for exact in (False, True):
            program = self._program(launch, returned, exact=exact)
            run = runner.examine if self._subject.traits.proof is Proof.GPU_LIMIT else runner.check
            examined = run(written(program.core + self._expected(returned), folder))
            if at_fault(examined, self._request):
                return program, examined
        return None

    def _reduced(
        self, program: ReproProgram, whole: Examination, runner: FileRunner, folder: Path, returned: dict[str, str]
    ) -> ReproProgram:
        is_same = ShowsSameFailure(program.core, whole, runner, folder, self._expected(returned))
        if self._subject.traits.proof in program_writer.TOLERANT:
            is_same.keep_results()
        began = time.monotonic()
        core = reduce_kernel(program.core, is_same, seconds=REDUCTION_S, report=self._report)
        tidy = retouched(core, "run")
        lines = core.count("\n")
        self._report(
            f"reduced {program.core.count(chr(10))} lines to {lines} in {time.monotonic() - began:.0f} s, "
            f"{is_same.tried} programs tried"
        )
        return replace(program, core=tidy if is_same(tidy) else core)

    def _launch(self) -> tuple[LaunchRecord | None, dict[str, str]]:
        """Return the launch at fault, and the results that its reproducer returns, by name."""
        signature = self._subject.fail.signature
        for event in self._run.memory:
            site = event.site
            named = site.kernel == signature.kernel and signature.place in {
                lasting_place(place_of(site), site.source, site.kernel),
                site.argument,
            }
            if (
                site.kernel
                and named
                and not isinstance(event, UndefinedLanes)
                and site.launch < len(self._record.launches)
            ):
                launch = self._record.launches[site.launch]
                variable = launch.arguments.get(site.argument)
                return launch, {site.argument: variable} if variable else {}
        if names := self._results():
            for launch in reversed(self._record.launches):
                if held := {name: launch.results[name] for name in names if name in launch.results}:
                    return launch, held
        launches = [launch for launch in self._record.launches if launch.kernel == signature.kernel]
        return (launches[-1], {}) if launches else (None, {})

    def _results(self) -> list[str]:
        """Return the names of the wrong results."""
        signature = self._subject.fail.signature
        named = [result.name for result in self._run.results if result.writer == (signature.kernel, signature.place)]
        wrong = [result.name for result in filter(is_wrong, self._run.results) if result.name in named]
        return wrong or named or [result.name for result in self._run.results if result.name == signature.place]

    def _truths(self, returned: dict[str, str] | None) -> dict[str, TruthRecord]:
        """Return the expected values of the returned results, or of the wrong ones."""
        if self._subject.traits.proof not in program_writer.TOLERANT:
            return {}
        names = list(self._record.truths) if returned is None else list(returned)
        if returned is None and self._subject.traits.proof is Proof.TRUTH:
            names = self._results()
        return {name: self._record.truths[name] for name in names if name in self._record.truths}

    def _expected(self, returned: dict[str, str]) -> str:
        """Return the code after the core, which is not reduced: expected results and tolerances."""
        truths = self._truths(returned)
        if not truths:
            return ""
        values = ", ".join(f"{name!r}: {truth.expression}" for name, truth in truths.items())
        figures = {name: (truth.whole, truth.row) for name, truth in truths.items()}
        return f"\n\ndef truth():\n    return {{{values}}}\n\n\nTOLERANCE = {figures}\n"

    # --- confirmation ---

    def _confirmed(self, form: Form, text: str, problems: list[str]) -> Reproducer:
        """Run the text in a fresh process; a file that is not confirmed says so in its first line."""
        self._report(f"confirming the {form} form in a fresh process")
        status, output = run_alone(text, self._paths)
        if status == PRESENT:
            return Reproducer(form=form, text=text)
        problem = "; ".join([*problems, f"run in a fresh process, it ended with status {status} ({output})"])
        return Reproducer(form=form, text=f"# UNCONFIRMED: {problem}\n{text}", problem=problem)


RUN = """\
import runpy, sys, traceback
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except Exception:
    traceback.print_exc()
    sys.exit(2)
"""
"""Runs a file.  Python's own status for an uncaught exception, 1, is that of a reproducer whose bug shows."""


def run_alone(text: str, paths: tuple[str, ...]) -> tuple[int, str]:
    """Return the exit status and the last line of a reproducer, run as a program; 2 if it raises."""
    with TemporaryDirectory(prefix="harness-repro-") as folder:
        path = Path(folder, "repro.py")
        path.write_text(text, encoding="utf-8")
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([*paths, *filter(None, sys.path)])}
        try:
            done = subprocess.run(
                [sys.executable, "-c", RUN, str(path)],
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
