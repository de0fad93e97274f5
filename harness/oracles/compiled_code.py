"""The promise that compiled code accesses memory aligned, and shared memory inside its bounds and in order."""

from collections.abc import Sequence

from harness.model.flaw_kind import FlawKind
from harness.model.run import CompiledFlaw, Source
from harness.model.verdict import Abstain, Fail, Pass, Severity, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.endings import NO_LAUNCH, unfinished
from harness.oracles.memory_events import at_line, place_of
from harness.oracles.traits import PromiseScope, Traits

NOT_PTX = "this case did not run as PTX"
MEANING = (
    "Triton's compiler lays tiles out in shared memory and puts barriers between their uses. So the compiler is the "
    "likely cause, unless the kernel is written in Gluon or contains assembly. Try another release of Triton."
)
UNFENCED = (
    "Ordinary stores reach the engines that copy tiles and multiply matrices after a fence.proxy.async. Without it "
    "they may read what was there before. GPUs rarely show it. Triton 3.4 to 3.7.0 leave it out before products of "
    "tiles that cp.async loads (https://github.com/triton-lang/triton/issues/9610)."
)
MISALIGNED = (
    "A GPU ends the launch: misaligned address. Either a pointer, a stride or a hint such as tl.multiple_of promises "
    "more than is true, or the compiler concludes too much from them."
)
MEANINGS = {
    "missing proxy fence": UNFENCED,
    "misaligned": MISALIGNED,
    "failed assertion": "An assertion of the kernel does not hold, or one of Triton's own. A GPU ends the launch.",
}
"""By kind of flaw; the others have `MEANING`."""
RARELY_SEEN = frozenset({"missing proxy fence"})
"""Kinds of flaws that GPUs rarely show: warnings."""


class CompiledCode(SingleRunOracle):
    """Fails on races in shared memory, on accesses outside it or misaligned, and on reads of what nothing has written.

    Only the PTX machine has shared memory: it executes what the compiler made of the kernel.
    """

    name = "compiled-code"
    promise = (
        "Compiled code accesses memory aligned, stays inside its shared memory, reads only what was written there, and "
        "orders its warps."
    )
    # `Causality.APART`: where a race changes a value, the value is a finding of its own.
    traits = Traits(
        rank=185,
        flaw=FlawKind.PROMISE,
        scope=PromiseScope.LAUNCH,
        not_requested=frozenset({NOT_PTX}),
        ends_launches=True,
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each kind of flaw at each line."""
        run = evidence.run
        groups: dict[tuple[str, str, str], list[CompiledFlaw]] = {}
        for event in run.memory:
            if isinstance(event, CompiledFlaw):
                groups.setdefault((event.site.kernel, place_of(event.site), event.kind), []).append(event)
        if groups:
            return tuple(self._fail(evidence, group) for group in groups.values())
        if not run.engine_traits.has_shared_memory:
            return (Abstain(oracle=self.name, reason=NOT_PTX),)
        if reason := unfinished(run):
            return (Abstain(oracle=self.name, reason=reason),)
        if run.agreement is not None and run.agreement.why_none:
            return (Abstain(oracle=self.name, reason=run.agreement.why_none),)
        return (Pass(oracle=self.name),) if run.launches else (Abstain(oracle=self.name, reason=NO_LAUNCH),)

    def _fail(self, evidence: Evidence, group: Sequence[CompiledFlaw]) -> Fail:
        first = group[0]
        severity = Severity.WARNING if first.kind in RARELY_SEEN else Severity.ERROR
        return Fail(
            signature=self.signature(
                evidence.run,
                kernel=first.site.kernel,
                place=f"{place_of(first.site)}: {first.kind}",
                severity=severity,
            ),
            message=f"{sentence(first)}{at_line(group)}",
            meaning=MEANINGS.get(first.kind, MEANING),
            source=first.site.source,
            launch_index=first.site.launch,
        )


ORACLES = (CompiledCode(),)


def sentence(flaw: CompiledFlaw) -> str:
    """Return for example `race in shared memory: ld.shared.b32 by warp 1 of program 0 after st.shared.b32`."""
    who = f"{flaw.opcode} by warp {flaw.warp} of program {flaw.program}"
    times = f", {flaw.count} times" if flaw.count > 1 else ""
    if not flaw.earlier_opcode:
        return f"{flaw.kind}: {who}, {flaw.text}{times}"
    by = "" if flaw.earlier_warp < 0 else f" by warp {flaw.earlier_warp}"
    line = _line(flaw.earlier) if flaw.earlier != flaw.site.source else ""
    return f"{flaw.kind}: {who} after {flaw.earlier_opcode}{by}{line}, {flaw.text}{times}"


def _line(source: Source | None) -> str:
    return f" ({source})" if source else ""
