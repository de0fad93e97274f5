"""A NaN-tainted case is compared with its definition, but not with other runs."""

from dataclasses import replace

from harness.model.case import ProgramOrder, ValueDistribution
from harness.model.verdict import Abstain
from harness.oracles import registry
from tests.oracles.facts import case, run

PLAIN = run(of=replace(case(), seed=0, order=ProgramOrder.FORWARD))
NAN_TAINTED = replace(PLAIN, case=replace(PLAIN.case, values=ValueDistribution.NAN_TAINTED))


def test_a_nan_tainted_case_is_not_compared_with_other_runs() -> None:
    assert registry.paired_runs(PLAIN)
    assert registry.paired_runs(NAN_TAINTED) == ()
    verdicts = registry.judge_all(NAN_TAINTED, {}, {})
    silent = {one.oracle for one in verdicts if isinstance(one, Abstain) and one.reason == registry.NAN_TAINTED}
    assert silent == {
        *("sm-invariance", "config-invariance", "order-invariance", "tuning-invariance", "undefined-lanes"),
        *("repeat-call", "graph-replay", "row-invariance"),
    }
