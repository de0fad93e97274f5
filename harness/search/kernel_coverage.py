"""Kernel coverage: run some cases of each op on each device, and count the kernels that they launch.

Owns the choice of cases and the counting of launches.  A launch counts as executed only if the engine executed it.
Launches that abstain, and cases that were refused or broke off, are counted apart.  Results are not judged here.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from concurrent.futures import TimeoutError as NotAllDone
from dataclasses import dataclass, field
from itertools import count as numbers
from itertools import islice, takewhile

from harness.libraries import name_of
from harness.model.case import Case, Scale
from harness.model.device import DeviceProfile
from harness.model.op import Op
from harness.model.run import Completed, Raised, Run, Unsupported
from harness.oracles.endings import describe
from harness.search.campaign_plan import derived_seed
from harness.search.launch_feedback import LaunchFeedback
from harness.search.runner import Runner
from harness.search.strategies import Batch, scouts

EXAMPLES_PER_CASE = 4
"""How many examples are drawn for one case, since Hypothesis repeats itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCount:
    """The launches of one kernel on one device."""

    library: str
    """The distribution that the op requires; empty if it requires none."""
    kernel: str
    device: str
    executed: int
    abstained: tuple[tuple[str, int], ...] = ()
    """Launches by unsupported operation and source line, the most frequent first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpCount:
    """The endings of the cases of one op on one device."""

    op: str
    device: str
    launches: int
    """Executed ones only."""
    endings: tuple[tuple[str, int], ...]
    """Cases by ending, the most frequent first."""
    expected: bool = True
    """False if the op declares that it may run without a kernel."""

    @property
    def broken(self) -> int:
        """How many cases did not complete."""
        return sum(count for ending, count in self.endings if ending != COMPLETED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The counts of one coverage run."""

    kernels: tuple[KernelCount, ...]
    """By library, kernel and device."""
    ops: tuple[OpCount, ...]
    """By op and device, in the order of the request."""

    @property
    def executed(self) -> int:
        return sum(kernel.executed for kernel in self.kernels)

    @property
    def abstained(self) -> int:
        return sum(count for kernel in self.kernels for _, count in kernel.abstained)

    @property
    def cases(self) -> int:
        return sum(count for op in self.ops for _, count in op.endings)

    @property
    def silent(self) -> tuple[OpCount, ...]:
        """Ops that launched no kernel on a device, though they declare that they do."""
        return tuple(op for op in self.ops if op.expected and not op.launches)

    @property
    def whole(self) -> bool:
        """True if every launch was executed, and every op launched a kernel on every device."""
        return not self.abstained and not self.silent


COMPLETED = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageRequest:
    """The cases to run."""

    ops: tuple[Op, ...]
    devices: tuple[DeviceProfile, ...]
    cases: int
    """Of each op on each device."""
    seed: int
    turn: int | None = None
    """Drawn cases of an op before the next op's turn; None runs all cases of an op at once."""

    @property
    def pairs(self) -> tuple[tuple[Op, DeviceProfile], ...]:
        """Ops and devices, device by device: each device needs processes of its own."""
        return tuple((op, device) for device in self.devices for op in self.ops)


class CoverageRun:
    """Runs the cases, scouts first, and counts; `coverage` may be read at any time, also after an interrupt."""

    def __init__(
        self, request: CoverageRequest, runner: Runner, ran: Callable[[Run], object], *, deadline: float | None = None
    ) -> None:
        """Call `ran` with each run.  From the deadline on, a time of `time.monotonic`, nothing is waited for."""
        self._request = request
        self._runner = runner
        self._ran = ran
        self._deadline = deadline
        self._counts = _Counts()

    @property
    def coverage(self) -> Coverage:
        """The counts so far."""
        return self._counts.coverage(self._request.pairs)

    @property
    def is_late(self) -> bool:
        """True if the time is up."""
        return self._deadline is not None and time.monotonic() >= self._deadline

    def run(self) -> None:
        """Run all cases, or as many as there is time for."""
        request = self._request
        scouted = {(op.id, device.slug): scouts(op, device)[: request.cases] for op, device in request.pairs}
        first = ((op, case) for op, device in request.pairs for case in scouted[op.id, device.slug])
        feedback_by_pair = self._run_all(first)
        drawn = (
            (op, case)
            for device in request.devices
            for op, case in _in_turn(
                [(op, _drawn(request, op, device, feedback_by_pair, scouted)) for op in request.ops], request.turn
            )
        )
        self._run_all(drawn)

    def _run_all(self, cases: Iterable[tuple[Op, Case]]) -> dict[tuple[str, str], LaunchFeedback]:
        """Run the cases, and return their launch feedback by op and device."""
        futures: dict[Future[Run], Op] = {}
        feedback_by_pair: dict[tuple[str, str], LaunchFeedback] = {}
        try:
            for op, case in takewhile(lambda _: not self.is_late, cases):  # drawing takes time, too
                futures[self._runner.submit(case)] = op
            left_s = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
            for future in as_completed(futures, left_s):
                run, op = future.result(), futures[future]
                self._counts.count(op, run)
                key = (op.id, run.case.device.slug)
                feedback_by_pair[key] = feedback_by_pair.get(key, LaunchFeedback()) | LaunchFeedback.of(run)
                self._ran(run)
        except NotAllDone:
            pass
        finally:
            for future in futures:
                future.cancel()
        return feedback_by_pair


def measure(request: CoverageRequest, runner: Runner, ran: Callable[[Run], object]) -> Coverage:
    """Run the cases, and return the counts; call `ran` with each run."""
    running = CoverageRun(request, runner, ran)
    running.run()
    return running.coverage


def _in_turn(drawn: Sequence[tuple[Op, Iterator[Case]]], turn: int | None) -> Iterator[tuple[Op, Case]]:
    """Yield `turn` cases of each op, again and again until none is left."""
    while drawn:
        left: list[tuple[Op, Iterator[Case]]] = []
        for op, cases in drawn:
            taken = tuple(islice(cases, turn))
            yield from ((op, case) for case in taken)
            if len(taken) == turn:
                left.append((op, cases))
        drawn = left


def _drawn(
    request: CoverageRequest,
    op: Op,
    device: DeviceProfile,
    feedback_by_pair: Mapping[tuple[str, str], LaunchFeedback],
    scouted: Mapping[tuple[str, str], tuple[Case, ...]],
) -> Iterator[Case]:
    """Yield the rest of the cases, none of them twice.  At most one turn is drawn ahead."""
    key = op.id, device.slug
    seen = {case.digest for case in scouted[key]}
    left, feedback = request.cases - len(scouted[key]), feedback_by_pair.get(key, LaunchFeedback())
    size = EXAMPLES_PER_CASE * min(request.turn or request.cases, request.cases)
    for number in numbers():
        if left <= 0:
            return
        seed = derived_seed(request.seed, op.portable_id, device.slug, *((str(number),) if number else ()))
        batch = Batch(op=op, device=device, feedback=feedback, seed=seed, size=size)
        # An oversized case runs only a few programs, so it does not cover a kernel.
        usual = (case for case in batch.draw() if case.scale is Scale.USUAL)
        new = {case.digest: case for case in usual if case.digest not in seen}
        yield from islice(new.values(), left)
        left -= len(new)
        seen |= new.keys()
        if request.turn is None or not new:
            return


@dataclass(slots=True)
class _Counts:
    executed: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])
    """By library, kernel and device."""
    abstained: Counter[tuple[str, str, str, str]] = field(default_factory=Counter[tuple[str, str, str, str]])
    """By library, kernel, device and reason."""
    launches: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Executed launches by op and device."""
    endings: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])
    """By op, device and ending."""

    def count(self, op: Op, run: Run) -> None:
        library, device = " ".join(name_of(names[0]) for names in op.libraries), run.case.device.slug
        launched = Counter(launch.kernel for launch in run.launches)
        if isinstance(run.ending, Unsupported):
            kernel = run.ending.kernel
            # The launch that abstains is among those that were begun, unless its TTIR could not be parsed.
            launched[kernel] = max(0, launched[kernel] - 1)
            location = f" ({run.ending.source})" if run.ending.source else ""
            self.abstained[library, kernel, device, run.ending.what + location] += 1
        for kernel, count in launched.items():
            self.executed[library, kernel, device] += count
        self.launches[op.id, device] += launched.total()
        self.endings[op.id, device, _ending_text(run)] += 1

    def coverage(self, pairs: Iterable[tuple[Op, DeviceProfile]]) -> Coverage:
        reasons: dict[tuple[str, str, str], Counter[str]] = {}
        for (library, kernel, device, reason), count in self.abstained.items():
            reasons.setdefault((library, kernel, device), Counter())[reason] = count
        kernels = tuple(
            KernelCount(
                library=library,
                kernel=kernel,
                device=device,
                executed=self.executed[library, kernel, device],
                abstained=tuple(reasons.get((library, kernel, device), Counter()).most_common()),
            )
            for library, kernel, device in sorted(self.executed.keys() | reasons.keys())
        )
        return Coverage(kernels=kernels, ops=tuple(self._op_count(op, device) for op, device in pairs))

    def _op_count(self, op: Op, device: DeviceProfile) -> OpCount:
        endings = Counter(
            {ending: count for (name, on, ending), count in self.endings.items() if (name, on) == (op.id, device.slug)}
        )
        return OpCount(
            op=op.id,
            device=device.slug,
            launches=self.launches[op.id, device.slug],
            expected=op.launches,
            endings=tuple(endings.most_common()),
        )


def _ending_text(run: Run) -> str:
    """Describe the ending, with the first line of its message."""
    match run.ending:
        case Completed():
            return COMPLETED
        case Raised(message=message):
            return f"{describe(run.ending)}: {message.partition(chr(10))[0]}"
        case _:
            return describe(run.ending).partition("\n")[0]
