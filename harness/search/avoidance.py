"""Avoidance: later draws pass over cases that would only end as many cases before them did.

A case that ends early, by an exception, a crash, a hang or a build that fails, hides every other bug it could have
shown.  `harness.search.failure_rules` finds what such cases of an op have in common.  Draws that meet a rule are
dropped, except for one case in `KEEP_ONE_IN`, so that another bug behind it still shows, and a wrong rule is refuted.
An op that never completes on a device, for whatever reason, is set aside there in the same way, and its time goes to
the others.

A case that completes is checked by every oracle, whatever it shows.  It hides nothing, so no rule comes from it.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from harness.model.avoided import AvoidedDraws, SetAsideOp
from harness.model.case import Case
from harness.model.op import Op
from harness.model.run import (
    Completed,
    Crashed,
    Deadlocked,
    Ending,
    Faulted,
    OutOfMemory,
    Raised,
    Refused,
    TimedOut,
    Unsupported,
)
from harness.model.verdict import Outcome, Signature
from harness.oracles.endings import ResponsibleOracle, responsible_oracle
from harness.search.campaign_statistics import Trial
from harness.search.failure_rules import LEAST_CASES, FailureRule, KnownCase, Place, failure_rules, place_of
from harness.search.judge import Examination

KEEP_ONE_IN = 10
"""One case in so many may meet a rule, and one turn in so many may be of an op that is set aside."""
SET_ASIDE_AFTER = 24
"""An op is set aside on a device after so many cases, if none completed."""
LATEST = 512
"""A rule is learnt from so many cases of an op at most."""


class _JudgedCase(NamedTuple):
    """What is kept of a drawn case once it has its verdicts."""

    number: int
    batch: int
    device: str
    at: Place
    ending: Outcome
    """As `_outcome_of` says."""
    signatures: frozenset[Signature]

    def shows(self, signature: Signature) -> Outcome:
        """Return FAIL if the case shows this failure, and PASS if it would have."""
        if signature in self.signatures:
            return Outcome.FAIL
        return Outcome.PASS if self.ending is Outcome.PASS else Outcome.ABSTAIN


@dataclass(slots=True)
class _UsedRule:
    """A rule that draws were checked against."""

    rule: FailureRule
    """As it was last: its bounds may move."""
    chosen_since: int = 0
    """Cases of the op that were chosen since one that meets it."""
    dropped: int = 0


class Avoidance:
    """What is known of all drawn cases, and what was avoided because of it.

    Each question names the last batch whose cases count, so that the answer does not depend on timing.
    """

    def __init__(self, *, is_used: bool = True) -> None:
        """If it is not used, nothing is avoided."""
        self._is_used = is_used
        self._judged: dict[str, list[_JudgedCase]] = defaultdict(list)
        """By op."""
        self._learnt: dict[str, tuple[int, tuple[FailureRule, ...]]] = {}
        """By op, the latest rules, and the number of cases that were known then."""
        self._early = Counter[str]()
        """By op, the cases that the library ended early."""
        self._incomplete = Counter[str]()
        """By op, the cases that did not complete."""
        self._used: dict[tuple[str, str], _UsedRule] = {}
        """By op and kind of rule."""
        self._turns = Counter[tuple[str, str]]()
        """By op and device, the turns that came while it was set aside."""

    def record(self, batch: int, trial: Trial, examined: Examination) -> None:
        """Record a drawn case with its verdicts."""
        signatures = frozenset(fail.signature for fail in examined.fails)
        ending = _outcome_of(examined.run.ending)
        judged = _JudgedCase(
            trial.number, batch, trial.case.device.slug, place_of(trial.op, trial.case), ending, signatures
        )
        self._judged[trial.op.id].append(judged)
        self._early[trial.op.id] += ending is Outcome.FAIL
        self._incomplete[trial.op.id] += ending is not Outcome.PASS

    def rules(self, op: Op, last_batch: int) -> tuple[FailureRule, ...]:
        """Return the rules that the op's cases of batches up to `last_batch` give."""
        if not self._is_used or self._early[op.id] < LEAST_CASES:
            return ()
        known = self._known(op, last_batch)
        count, rules = self._learnt.get(op.id, (0, ()))
        if len(known) != count:
            rules = failure_rules(KnownCase(at=case.at, outcome=case.ending) for case in known[-LATEST:])
            self._learnt[op.id] = len(known), rules
        return rules

    def latest_rules(self, op: Op) -> tuple[FailureRule, ...]:
        """Return the rules that the op's last batch was checked against."""
        return self._learnt.get(op.id, (0, ()))[1]

    def drops(self, op: Op, case: Case, rules: Sequence[FailureRule]) -> bool:
        """Return True if the draw is to be dropped; each rule lets a few cases pass."""
        if not rules:
            return False
        at = place_of(op, case)
        used = [self._use(op, rule) for rule in rules]
        met = next((used_rule for used_rule in used if used_rule.rule.holds(at)), None)
        if met is None:
            for used_rule in used:
                used_rule.chosen_since += 1
            return False
        if met.chosen_since < (KEEP_ONE_IN - 1) * len(rules):
            met.dropped += 1
            return True
        met.chosen_since = 0
        return False

    def is_set_aside(self, op: Op, device: str, last_batch: int) -> bool:
        """Return True if many cases of the op ran on this device, and none completed."""
        if not self._is_used or self._incomplete[op.id] < SET_ASIDE_AFTER:
            return False
        endings = [case.ending for case in self._known(op, last_batch) if case.device == device]
        return len(endings) >= SET_ASIDE_AFTER and Outcome.PASS not in endings

    def is_declined(self, op: Op, device: str, last_batch: int) -> bool:
        """Return True if the library declined every case of the op that ran on this device."""
        endings = [case.ending for case in self._known(op, last_batch) if case.device == device]
        return self._is_used and bool(endings) and set(endings) == {Outcome.ABSTAIN}

    def skips_turn(self, op: Op, device: str, last_batch: int) -> bool:
        """Return True if the op is set aside on this device, and this turn is not one of the few that it keeps."""
        if not self.is_set_aside(op, device, last_batch):
            return False
        self._turns[op.id, device] += 1
        return self._turns[op.id, device] % KEEP_ONE_IN != 0

    def rule_of(self, op: Op, signature: Signature) -> str:
        """Return what the cases with this failure have in common; empty if nothing that covers half of them."""
        latest = sorted(self._judged[op.id], key=itemgetter(0))[-LATEST:]
        known = [KnownCase(at=case.at, outcome=case.shows(signature)) for case in latest]
        fails = [case.at for case in known if case.outcome is Outcome.FAIL]
        passes = sum(case.outcome is Outcome.PASS for case in known)
        if not passes:
            return f"every case: {len(fails)} of {len(fails)}" if len(fails) >= LEAST_CASES else ""
        covered = [(sum(map(rule.holds, fails)), rule) for rule in failure_rules(known)]
        met, rule = max(covered, key=itemgetter(0), default=(0, None))
        if 2 * met < len(fails) or rule is None:
            return ""
        unexplained = len(fails) - met
        return f"every case with {rule}: {met} of {met}; {unexplained or 'none'} of {unexplained + passes} others"

    @property
    def avoided(self) -> tuple[AvoidedDraws, ...]:
        """The rules by which draws were dropped."""
        return tuple(
            self._avoided(op, used.rule, used.dropped) for (op, _), used in sorted(self._used.items()) if used.dropped
        )

    @property
    def set_aside(self) -> tuple[SetAsideOp, ...]:
        """The ops that lost turns, by device."""
        return tuple(self._set_aside(op, device, turns) for (op, device), turns in sorted(self._turns.items()))

    def _known(self, op: Op, last_batch: int) -> list[_JudgedCase]:
        """Return the op's cases of batches up to this one, in the order of their numbers."""
        return sorted((case for case in self._judged[op.id] if case.batch <= last_batch), key=itemgetter(0))

    def _use(self, op: Op, rule: FailureRule) -> _UsedRule:
        used = self._used.setdefault((op.id, rule.kind), _UsedRule(rule))
        used.rule = rule
        return used

    def _avoided(self, op: str, rule: FailureRule, dropped: int) -> AvoidedDraws:
        endings = Counter(case.ending for case in self._judged[op] if rule.holds(case.at))
        failed = endings[Outcome.FAIL]
        return AvoidedDraws(op=op, rule=str(rule), cases=failed + endings[Outcome.PASS], failed=failed, dropped=dropped)

    def _set_aside(self, op: str, device: str, turns: int) -> SetAsideOp:
        endings = [case.ending for case in self._judged[op] if case.device == device]
        return SetAsideOp(
            op=op,
            device=device,
            cases=len(endings),
            completed=endings.count(Outcome.PASS),
            batches=turns - turns // KEEP_ONE_IN,
        )


def _outcome_of(ending: Ending) -> Outcome:
    """Return PASS if the case completed, FAIL if the library ended it early, ABSTAIN if anything else did.

    The verdicts do not matter: those about resources depend on how far the compiler in the background is.
    """
    match ending:
        case Completed():
            return Outcome.PASS
        case Raised():
            return Outcome.ABSTAIN if responsible_oracle(ending) is ResponsibleOracle.SUITE else Outcome.FAIL
        case Crashed() | TimedOut() | Faulted() | Deadlocked():
            return Outcome.FAIL
        case Refused() | Unsupported() | OutOfMemory():
            return Outcome.ABSTAIN
