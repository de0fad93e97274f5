"""The causes of a search's failures: which failures are consequences of another one.

Each sighting has one signature, and one bug has many: a stray load, wrong values of three results, and results that
vary with the SM count.  This file decides from facts of the search alone, and runs nothing.

Failures at one place of a kernel, failures of one idiom, and equal exceptions at one line have one cause in whatever
cases they show.  Failures at several lines that access one argument have one if the simplest case of one, which ran
alone, shows the other.  Otherwise failure A explains failure B if

1. A comes before B: its oracle judges causes of what the other judges (`Causality`), and its launch is not later;
2. nearly all cases that showed B showed A too.  An independent bug also shows where A does not;
3. the simplest case of A shows B.  An independent bug that needs more than A does is missing there.  If the oracle of B
   did not judge that case, since it compares with a second run, the simplest case of B shows A.

Two independent bugs of one op that fail in every case look like one.  The second is reported as a symptom, and as a
finding once the first is mended.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from harness.model.run import Launch
from harness.model.verdict import Fail, Severity, Signature
from harness.oracles import registry
from harness.oracles.traits import Causality, Traits

OTHERS_SHARE = 0.1
"""The largest share of a consequence's cases that may lack the cause: near its threshold an error is not seen."""
GRADIENT = "d:"
"""The beginning of a gradient's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """One failure of a search, and the facts that decide about its cause."""

    fail: Fail
    cases: AbstractSet[str]
    """Digests of the cases that showed it."""
    seen_with: AbstractSet[Signature] | None = None
    """All failures of its simplest case; None if that did not run alone."""
    judged: AbstractSet[str] = frozenset()
    """The oracles that passed or failed that case."""
    launches: Sequence[Launch] = ()
    """The launches of that case."""

    @property
    def signature(self) -> Signature:
        return self.fail.signature

    @property
    def traits(self) -> Traits:
        return registry.traits_of(self.signature.oracle)

    @property
    def is_error(self) -> bool:
        return self.signature.severity is Severity.ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A failure that no other one explains, and its consequences."""

    head: Signature
    symptoms: tuple[Signature, ...] = ()
    """In causal order."""


@dataclass(slots=True, kw_only=True)
class _Block:
    """Failures that have one cause by themselves: at one argument, of one idiom, or equal exceptions at one line."""

    members: list[Suspect]
    consequences: list["_Block"] = field(default_factory=list["_Block"])

    @property
    def head(self) -> Suspect:
        return self.members[0]

    @property
    def cases(self) -> AbstractSet[str]:
        return frozenset[str]().union(*(member.cases for member in self.members))

    def cases_at_place_of(self, member: Suspect) -> AbstractSet[str]:
        """Return the cases of the members at the place of this one."""
        return frozenset[str]().union(
            *(suspect.cases for suspect in self.members if _place(suspect.fail) == _place(member.fail))
        )

    def cause(self) -> Cause:
        rest = [*self.members[1:], *(member for block in self.consequences for member in block.members)]
        return Cause(head=self.head.signature, symptoms=tuple(member.signature for member in rest))


def causes_of(suspects: Iterable[Suspect]) -> tuple[Cause, ...]:
    """Group the failures by cause.  The causes are in the order of their first failure among `suspects`."""
    failures = tuple(suspects)
    heads: list[_Block] = []
    for block in sorted(_blocks(failures), key=lambda block: _causal_order(block.head)):
        explaining = [head for head in heads if _block_explains(head, block)]
        if explaining:
            # Of several causes, the one in most of its cases; of those, the first.
            best = max(explaining, key=lambda head: len(block.cases & head.cases))
            best.consequences.append(block)
        else:
            heads.append(block)
    place = {suspect.signature: number for number, suspect in enumerate(failures)}
    causes = (head.cause() for head in heads)
    return tuple(sorted(causes, key=lambda cause: min(place[signature] for signature in (cause.head, *cause.symptoms))))


def may_explain(cause: Suspect, consequence: Suspect) -> bool:
    """Return True if nothing but the cases speaks against `cause` as the cause of `consequence`."""
    if consequence.is_error and not cause.is_error and not cause.traits.has_harmful_warnings:
        return False
    return _comes_before(cause, consequence) and _shows_with(cause, consequence)


def _blocks(suspects: Iterable[Suspect]) -> list[_Block]:
    """Join the failures at one place or argument, those of one idiom, and equal exceptions at one line."""
    blocks: dict[object, list[_Block]] = {}
    for suspect in sorted(suspects, key=_order_in_block):
        alike = blocks.setdefault(_identity(suspect.fail), [])
        block = next(
            (block for block in alike if any(_is_one_cause(suspect, member) for member in block.members)), None
        )
        if block is None:
            alike.append(_Block(members=[suspect]))
        else:
            block.members.append(suspect)
    return [block for alike in blocks.values() for block in alike]


def _is_one_cause(suspect: Suspect, other: Suspect) -> bool:
    """Return True for two failures of one identity, unless two bugs access one argument at different statements."""
    if not suspect.fail.argument or suspect.fail.idiom or suspect.signature.place == other.signature.place:
        return True
    if suspect.seen_with is None or other.seen_with is None:  # they did not run alone
        return not suspect.cases.isdisjoint(other.cases)
    return suspect.signature in other.seen_with or other.signature in suspect.seen_with


def _order_in_block(suspect: Suspect) -> tuple[bool, bool, int]:
    return not suspect.is_error, suspect.seen_with is None, _first_launch(suspect)


def _identity(fail: Fail) -> object:
    """Return what failures of one block have in common."""
    if fail.idiom:
        return fail.oracle, fail.idiom
    is_ending = registry.traits_of(fail.oracle).causality is Causality.ENDING
    if is_ending and fail.source is not None:  # host code that many ops share raises the same exception
        return fail.oracle, fail.source, fail.signature.place
    return _place(fail)


def _place(fail: Fail) -> tuple[str, ...]:
    """Return the signature without its severity, and with the argument in the place of the line.

    A tensor that a kernel takes for another shape is misread at every line that accesses it.  The file tells kernels of
    equal names apart.
    """
    signature = fail.signature
    at = (fail.argument, fail.source.file) if fail.argument and fail.source else (signature.place,)
    traits = registry.traits_of(signature.oracle)
    oracle = traits.family if traits.is_same_bug_as_family else signature.oracle
    return oracle, signature.op, signature.kernel, *at


def _block_explains(cause: _Block, consequence: _Block) -> bool:
    return any(
        _is_nearly_within(consequence.cases, cause.cases_at_place_of(member)) and may_explain(member, consequence.head)
        for member in cause.members
    )


def _is_nearly_within(some: AbstractSet[str], all_: AbstractSet[str]) -> bool:
    return bool(some & all_) and len(some - all_) <= OTHERS_SHARE * len(some)


def _shows_with(cause: Suspect, consequence: Suspect) -> bool:
    """Return True if the simplest case of the cause shows the consequence; if not judged there, the other way round."""
    if cause.seen_with is None:
        return False
    if consequence.signature.oracle in cause.judged:
        return consequence.signature in cause.seen_with
    if consequence.seen_with is None or cause.signature.oracle not in consequence.judged:
        return True
    return cause.signature in consequence.seen_with


def _comes_before(cause: Suspect, consequence: Suspect) -> bool:
    first, second = cause.signature, consequence.signature
    earlier, later = cause.traits, consequence.traits
    if later.causality is Causality.ENDING:
        return earlier.ends_launches and first.kernel == second.kernel
    if Causality.UNDEFINED_LANES in {earlier.causality, later.causality}:
        return earlier.causality is Causality.UNDEFINED_LANES and later.varies_with_undefined_lanes
    if earlier.causality is Causality.KERNEL:
        return later.causality in {Causality.KERNEL, Causality.RESULT} and not _is_launched_later(cause, consequence)
    if {earlier.causality, later.causality} != {Causality.RESULT} or earlier.rank > later.rank:
        return False
    if first.place.startswith(GRADIENT) and not second.place.startswith(GRADIENT) and not second.kernel:
        return False
    return not _is_launched_later(cause, consequence)


def _is_launched_later(suspect: Suspect, other: Suspect) -> bool:
    """Return True if the kernel at fault in `suspect` is launched only after that in `other`, in the simplest case."""
    first, second = suspect.signature.kernel, other.signature.kernel
    for launches in (suspect.launches, other.launches):
        kernels = [launch.kernel for launch in launches]
        if first in kernels and second in kernels:
            return kernels.index(first) > len(kernels) - 1 - kernels[::-1].index(second)
    return False


def _causal_order(suspect: Suspect) -> tuple[bool, int, int]:
    """Return a sort key that puts causes before their consequences."""
    rank, at = suspect.traits.rank, _first_launch(suspect)
    return (False, at, rank) if suspect.traits.causality is Causality.KERNEL else (True, rank, at)


def _first_launch(suspect: Suspect) -> int:
    """Return the index of the first launch of the kernel at fault; beyond the last if there is none."""
    kernels = [launch.kernel for launch in suspect.launches]
    return kernels.index(suspect.signature.kernel) if suspect.signature.kernel in kernels else len(kernels)
