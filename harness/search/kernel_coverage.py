"""What of a library runs here: some cases of each op on each device, and which kernels they launched.

Owns how cases are chosen and launches counted.  Only what was executed counts: a launch that abstains, and a case that
was refused or broke off, is counted as such.  Judging results is a campaign's business.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import dataclass, field
from itertools import count as numbers
from itertools import islice

from harness.model.case import Case, Scale
from harness.model.device import DeviceProfile
from harness.model.op import Op
from harness.model.run import Completed, Raised, Run, Unsupported
from harness.oracles.endings import describe
from harness.search.launch_feedback import Hints
from harness.search.plan import seed_of
from harness.search.runner import Runner
from harness.search.strategies import Batch, scouts

DRAWS_FOR_EACH = 4
"""So many examples are drawn for one case, since many of Hypothesis's are alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCount:
    """The launches of one kernel on one device."""

    library: str
    """The distribution that its op requires; empty where it requires none."""
    kernel: str
    device: str
    executed: int
    abstained: tuple[tuple[str, int], ...] = ()
    """By operation and source line, how many launches; most first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpCount:
    """What became of the cases of one op on one device."""

    op: str
    device: str
    launches: int
    """That were executed."""
    endings: tuple[tuple[str, int], ...]
    """By how they ended, how many cases; most first."""

    @property
    def broken(self) -> int:
        """How many cases broke off before their end, in whatever way."""
        return sum(count for ending, count in self.endings if ending != COMPLETED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """All of it."""

    kernels: tuple[KernelCount, ...]
    """By library, kernel and device."""
    ops: tuple[OpCount, ...]
    """By op and device, in the order asked for."""

    @property
    def executed(self) -> int:
        """Launches that were executed."""
        return sum(one.executed for one in self.kernels)

    @property
    def abstained(self) -> int:
        """Launches that were not."""
        return sum(count for one in self.kernels for _, count in one.abstained)

    @property
    def cases(self) -> int:
        """Cases that were run."""
        return sum(count for one in self.ops for _, count in one.endings)

    @property
    def silent(self) -> tuple[OpCount, ...]:
        """Ops that launched nothing on a device: nothing of them is covered there."""
        return tuple(one for one in self.ops if not one.launches)

    @property
    def whole(self) -> bool:
        """Whether every launch was executed, and every op launched something on every device."""
        return not self.abstained and not self.silent


COMPLETED = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageRequest:
    """What is to be covered."""

    ops: tuple[Op, ...]
    devices: tuple[DeviceProfile, ...]
    cases: int
    """Of each op on each device."""
    seed: int
    turn: int | None = None
    """After so many drawn cases of an op comes the next one's turn; None where each has all of its own at once."""

    @property
    def pairs(self) -> tuple[tuple[Op, DeviceProfile], ...]:
        """Device by device, since each needs processes of its own."""
        return tuple((op, device) for device in self.devices for op in self.ops)


def measure(order: CoverageRequest, runner: Runner, ran: Callable[[Run], object]) -> Coverage:
    """Run the cases, plain ones first, and count; `ran` is told of each as it ends."""
    tally = _Tally()
    plain = {(op.id, device.slug): scouts(op, device)[: order.cases] for op, device in order.pairs}
    first = ((op, case) for op, device in order.pairs for case in plain[op.id, device.slug])
    shown = _run_all(first, runner, tally, ran)
    drawn = (
        (op, case)
        for device in order.devices
        for op, case in _in_turn([(op, _drawn(order, op, device, shown, plain)) for op in order.ops], order.turn)
    )
    _run_all(drawn, runner, tally, ran)
    return tally.coverage(order.pairs)


def _in_turn(drawn: Sequence[tuple[Op, Iterator[Case]]], turn: int | None) -> Iterator[tuple[Op, Case]]:
    """So many cases of each op, again and again until none is left."""
    while drawn:
        left: list[tuple[Op, Iterator[Case]]] = []
        for op, cases in drawn:
            taken = tuple(islice(cases, turn))
            yield from ((op, case) for case in taken)
            if len(taken) == turn:
                left.append((op, cases))
        drawn = left


def _drawn(
    order: CoverageRequest,
    op: Op,
    device: DeviceProfile,
    shown: Mapping[tuple[str, str], Hints],
    plain: Mapping[tuple[str, str], tuple[Case, ...]],
) -> Iterator[Case]:
    """The cases that are left to draw, none of them twice; no more are drawn ahead than make a turn."""
    key = op.id, device.slug
    seen = {case.digest for case in plain[key]}
    left, hints = order.cases - len(plain[key]), shown.get(key, Hints())
    size = DRAWS_FOR_EACH * min(order.turn or order.cases, order.cases)
    for number in numbers():
        if left <= 0:
            return
        seed = seed_of(order.seed, *key, *((str(number),) if number else ()))
        batch = Batch(op=op, device=device, hints=hints, seed=seed, size=size)
        # Of a giant case a few programs run: that a kernel was executed means all of them.
        usual = (case for case in batch.draw() if case.scale is Scale.USUAL)
        fresh = {case.digest: case for case in usual if case.digest not in seen}
        yield from islice(fresh.values(), left)
        left -= len(fresh)
        seen |= fresh.keys()
        if order.turn is None or not fresh:
            return


def _run_all(
    cases: Iterable[tuple[Op, Case]], runner: Runner, tally: "_Tally", ran: Callable[[Run], object]
) -> dict[tuple[str, str], Hints]:
    """What the runs showed, by op and device."""
    flights: dict[Future[Run], Op] = {runner.submit(case): op for op, case in cases}
    shown: dict[tuple[str, str], Hints] = {}
    try:
        for future in as_completed(flights):
            run, op = future.result(), flights[future]
            tally.count(op, run)
            key = (op.id, run.case.device.slug)
            shown[key] = shown.get(key, Hints()) | Hints.of(run)
            ran(run)
    finally:
        for future in flights:
            future.cancel()
    return shown


@dataclass(slots=True)
class _Tally:
    executed: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])
    """By library, kernel and device."""
    abstained: Counter[tuple[str, str, str, str]] = field(default_factory=Counter[tuple[str, str, str, str]])
    """The same, and why."""
    launches: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """By op and device, those that were executed."""
    endings: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])
    """By op, device and ending."""

    def count(self, op: Op, run: Run) -> None:
        library, device = " ".join(op.requires), run.case.device.slug
        launched = Counter(launch.kernel for launch in run.launches)
        if isinstance(run.ending, Unsupported):
            kernel = run.ending.kernel
            # The launch that abstains is among those that were begun, unless its TTIR could not be read.
            launched[kernel] = max(0, launched[kernel] - 1)
            where = f" ({run.ending.source})" if run.ending.source else ""
            self.abstained[library, kernel, device, run.ending.what + where] += 1
        for kernel, count in launched.items():
            self.executed[library, kernel, device] += count
        self.launches[op.id, device] += launched.total()
        self.endings[op.id, device, _named(run)] += 1

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
        return Coverage(kernels=kernels, ops=tuple(self._of(op, device) for op, device in pairs))

    def _of(self, op: Op, device: DeviceProfile) -> OpCount:
        endings = Counter(
            {ending: count for (name, on, ending), count in self.endings.items() if (name, on) == (op.id, device.slug)}
        )
        return OpCount(
            op=op.id,
            device=device.slug,
            launches=self.launches[op.id, device.slug],
            endings=tuple(endings.most_common()),
        )


def _named(run: Run) -> str:
    """How a case ended, with the first line of what was said."""
    match run.ending:
        case Completed():
            return COMPLETED
        case Raised(message=message):
            return f"{describe(run.ending)}: {message.partition(chr(10))[0]}"
        case _:
            return describe(run.ending).partition("\n")[0]
