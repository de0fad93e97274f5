"""The promise that a captured call computes from the values that its inputs have at a replay, in memory of its own."""

from harness.model.ending import Completed, OutOfMemory, Unsupported
from harness.model.flaw_kind import FlawKind
from harness.model.later_calls import ChangedInputs, FreedMemory, GraphReplay
from harness.model.paired_run import SecondRun
from harness.model.run import Run
from harness.model.verdict import Abstain, Fail, Pass, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.endings import describe, unfinished
from harness.oracles.traits import Causality, Need, PromiseScope, Proof, Traits
from harness.wording import counted

NOT_REPLAYED = "this case was not captured into a CUDA graph"
WHEN = {
    ChangedInputs.NONE: "with the same values again",
    ChangedInputs.NUMBERS: "with other numbers in its inputs",
    ChangedInputs.ALL: "with other integers in its inputs",
}
MEANING = {
    ChangedInputs.NONE: "A replay runs no host code: a counter that only host code resets stays as it was.",
    ChangedInputs.NUMBERS: "A replay runs no host code: what it computed from the inputs at the capture is used again.",
    ChangedInputs.ALL: "A replay runs no host code: what it read from the integers at the capture is used again.",
}
REORDERED = "when the streams of a captured call run in another order"
BESIDE = "while another call runs on a second stream"
SHARED = (
    "The op declares `threads=True`. Both calls use the same memory, such as a workspace that is kept for each device, "
    "and no event orders their streams."
)
UNORDERED = (
    "No event orders the steps of these streams. A GPU runs them at once, or in either order, also without a graph."
)


class ReplayedGraph(SingleRunOracle):
    """Compares replays of a captured call with calls without a graph, bit for bit, and sees what is freed."""

    name = "graph-replay"
    promise = "An op that declares `graphs=True` can be captured into a CUDA graph, and replays compute what calls do."
    traits = Traits(
        rank=226,
        flaw=FlawKind.PROMISE,
        causality=Causality.RESULT,
        needs=frozenset({Need.COMPARABLE_RESULTS}),
        scope=PromiseScope.REPLAY,
        second_run=SecondRun.GRAPH,
        not_requested=frozenset({NOT_REPLAYED}),
        proof=Proof.COMPARED_RUNS,
        more_than_launch="it shows only in a replay of a CUDA graph",
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail for the first change after which results differ and for freed memory; once if the capture breaks off."""
        run, replayed = evidence.run, evidence.run.replayed
        if reason := unfinished(run):
            return (Abstain(oracle=self.name, reason=reason),)
        if replayed is None:
            return (Abstain(oracle=self.name, reason=NOT_REPLAYED),)
        if replayed.host_read:
            return (self._fail_reading(run, replayed),)
        match replayed.ending:
            case Completed():
                pass
            case Unsupported() | OutOfMemory() as ending:
                return (Abstain(oracle=self.name, reason=f"in a CUDA graph, {describe(ending)}"),)
            case ending:
                kernel = getattr(ending, "launch", None) or ""
                return (
                    Fail(
                        signature=self.signature(run, kernel=kernel, place="capture"),
                        message=f"a captured call breaks off: {describe(ending)}",
                        meaning="Without a graph the call completes.",
                    ),
                )
        fails = [
            self._fail(run, names, f"when a captured call is replayed {WHEN[changed]}", MEANING[changed])
            for changed, names in [*replayed.differing.items()][:1]
        ]
        if replayed.reordered:
            fails.append(self._fail(run, replayed.reordered, REORDERED, UNORDERED))
        if replayed.beside and not fails:
            fails.append(self._fail(run, replayed.beside, BESIDE, SHARED))
        fails += {fail.signature: fail for fail in (self._fail_freed(run, freed) for freed in replayed.freed)}.values()
        return tuple(fails) or (Pass(oracle=self.name),)

    def _fail(self, run: Run, names: tuple[str, ...], when: str, meaning: str) -> Fail:
        result = next((result for result in run.results if result.name == names[0]), None)
        kernel, place = (result.writer if result else None) or ("", names[0])
        return Fail(
            signature=self.signature(run, kernel=kernel, place=place),
            message=f"{', '.join(names)} has other bits {when}",
            meaning=meaning,
            source=run.source_of(kernel),
        )

    def _fail_freed(self, run: Run, freed: FreedMemory) -> Fail:
        kernel = freed.kernel if freed.argument else ""
        user = f"{freed.argument} of {freed.kernel}" if freed.argument else freed.kernel
        between = f", in {freed.between}" if freed.between else ""
        taken = f"; {freed.taker} then allocates {counted(freed.taken_bytes, 'byte')} there" if freed.taker else ""
        return Fail(
            signature=self.signature(run, kernel=kernel, place=f"freed {freed.argument or freed.kernel}"),
            message=(
                f"the memory of {user} in a captured call ({counted(freed.bytes, 'byte')}) is freed after the capture"
                f"{between}{taken}"
            ),
            meaning=(
                "A graph holds addresses, and keeps no memory alive that was allocated before its capture. A replay "
                "reads and overwrites what lies there by then."
            ),
            source=freed.source or run.source_of(kernel),
        )

    def _fail_reading(self, run: Run, replayed: GraphReplay) -> Fail:
        return Fail(
            signature=self.signature(run, kernel="", place=str(replayed.source or replayed.host_read)),
            message=f"the call cannot be captured: its host code reads a tensor ({replayed.host_read})",
            meaning="A capture does not wait for the GPU, so there is no value to read.",
            source=replayed.source,
        )


ORACLES = (ReplayedGraph(),)
