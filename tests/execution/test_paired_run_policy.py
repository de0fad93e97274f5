"""Which cases get paired runs, and what differs in them, follows from the seed and the launches alone."""

from dataclasses import replace

from harness.execution.paired_run_policy import choice_number, is_sampled, order_matters, with_another_config
from harness.model.run import Launch, OrderDependence, Overlap
from tests.execution.ops_for_tests import case
from tests.oracles.facts import launch, site

OVERLAP = Overlap(site=site(), same_bytes=True, cells=1, first_cells=((0, 0),), programs=(0, 1))
DEPENDENCE = OrderDependence(site=site(), cells=1, first_cells=((0, 0),), programs=(0, 1))


def tuned(kernel: str, index: int, count: int = 3) -> Launch:
    return launch(kernel=kernel, config=f"BT: {16 << index}", config_index=index, config_count=count)


def test_every_eighth_seed_gets_paired_runs() -> None:
    assert [seed for seed in range(25) if is_sampled(case(seed=seed))] == [0, 8, 16, 24]
    assert [choice_number(case(seed=seed)) for seed in (0, 7, 8, 17)] == [0, 0, 1, 2]


def test_the_other_config_follows_from_the_seed() -> None:
    launches = (launch(), tuned("b", 2), tuned("a", 1))
    changed = [with_another_config(case(seed=seed), launches) for seed in (0, 8, 16, 24)]
    assert [one and (one[0], one[1].configs) for one in changed] == [
        ("a", {"a": 0}),
        ("b", {"b": 1}),
        ("a", {"a": 2}),
        ("b", {"b": 0}),
    ]
    assert with_another_config(case(), (launch(),)) is None


def test_order_matters_with_atomics_or_shared_cells() -> None:
    assert not order_matters((launch(),), (OVERLAP,))
    assert order_matters((launch(atomics=True),), ())
    assert order_matters((launch(),), (replace(OVERLAP, same_bytes=False),))
    assert order_matters((launch(),), (DEPENDENCE,))
