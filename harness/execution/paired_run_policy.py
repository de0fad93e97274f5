"""The policy for paired runs: which cases get a second run, and what differs in it.

Engines and oracles must decide alike.  An engine keeps more of a run that will be compared, and oracles request the
comparison.  Every decision follows from the case and its launches, so it is the same in every process.
"""

from collections.abc import Iterable
from dataclasses import replace

from harness.model.case import Case
from harness.model.run import Launch, MemoryEvent, OrderDependence, Overlap

ONE_CASE_IN = 8
"""Cases whose seed is a multiple of this get paired runs.

Seed 0 is one of them, so a shrunk seed keeps the paired run.  Drawn seeds are multiples about this often:
`harness.search.strategies` ensures that.
"""
UNSAMPLED_SEED = 1
"""The smallest seed of a case without paired runs."""


def is_sampled(case: Case) -> bool:
    """Return True if the case is also run at another SM count and with another autotune config."""
    return case.seed % ONE_CASE_IN == 0


def unsampled(case: Case) -> Case:
    """Return the case with a seed that asks for no paired runs."""
    return replace(case, seed=case.seed + UNSAMPLED_SEED) if is_sampled(case) else case


def choice_number(case: Case) -> int:
    """Return the number that chooses what differs in the paired run.

    It depends on the seed alone, so the choice stays the same while other parts of the case shrink.
    """
    return case.seed // ONE_CASE_IN


def with_another_config(case: Case, launches: Iterable[Launch]) -> tuple[str, Case] | None:
    """Return an autotuned kernel, and the case with a config of that kernel that did not run.

    Returns None if no launched kernel is autotuned.
    """
    tuned = {launch.kernel: launch for launch in launches if launch.config_count > 1}
    if not tuned:
        return None
    launch = tuned[sorted(tuned)[choice_number(case) % len(tuned)]]
    # The index is absolute, not relative to the config that ran: shrinking towards config 0 keeps the comparison.
    index = choice_number(case) % launch.config_count
    if index == launch.config_index:
        index = (index + 1) % launch.config_count
    return launch.kernel, replace(case, configs={**case.configs, launch.kernel: index})


def order_matters(launches: Iterable[Launch], memory: Iterable[MemoryEvent]) -> bool:
    """Return True if the order of programs can show: through atomics, or through memory that programs share."""
    return any(launch.atomics for launch in launches) or any(
        isinstance(event, OrderDependence) or (isinstance(event, Overlap) and not event.same_bytes) for event in memory
    )
