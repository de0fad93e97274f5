"""What was checked of one op on one device: outcomes, reasons, and the kinds of checks that only some cases get."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.execution.paired_run_policy import order_matters
from harness.model.case import Scale
from harness.model.host_configs import PickedConfig
from harness.model.paired_run import SecondRun
from harness.model.row_check import RowCell
from harness.model.run import Completed, Run
from harness.model.verdict import GENERATED, Outcome
from harness.oracles import registry
from harness.oracles.traits import Need, Traits
from harness.search.judge import Examination, compiled_launches
from harness.search.row_cells import row_cells


@dataclass(slots=True, kw_only=True)
class OpStatistics:
    """The counts of one op on one device."""

    outcomes: Counter[Outcome] = field(default_factory=Counter[Outcome])
    reasons: Counter[str] = field(default_factory=Counter[str])
    """How many cases abstained for each reason."""
    oversized: int = 0
    """Oversized cases that did not abstain."""
    long: int = 0
    """Long cases that did not abstain."""
    second_runs: Counter[SecondRun] = field(default_factory=Counter[SecondRun])
    """Completed second runs; kinds that are possible but did not run count 0."""
    compared: int = 0
    """Cases whose results were compared with the definition."""
    undefined: int = 0
    """Cases whose results were to be compared, and that found no definition."""
    eager: Counter[str] = field(default_factory=Counter[str])
    """How many checked cases left each part of a compiled program to torch's own operators."""
    builds: set[str] = field(default_factory=set[str])
    """The builds that were launched, if their resources are to be checked and the engine leaves TTIR to compile."""

    picked: Counter[str] = field(default_factory=Counter[str])
    """Checked cases by the config that host code picked in them; listed configs that none has checked count 0."""

    row_cells: Counter[RowCell] = field(default_factory=Counter[RowCell])
    """How many row checks say the same of a kernel with one config."""

    def count(self, examined: Examination) -> None:
        possible = tuple(_possible_second_runs(examined))
        builds = builds_of(examined) if any(Need.RESOURCES in traits.needs for traits in _asked(examined)) else ()
        self.add_outcome(examined, 1)
        self.second_runs.update(dict.fromkeys(possible, 0))
        if examined.outcome is not Outcome.ABSTAIN:
            self.second_runs.update(examined.second_runs)
            self.eager.update(dict.fromkeys(examined.run.eager, 1))
            self.picked.update(picked.label for picked in examined.run.case.picked if is_checked(picked, examined.run))
        self.builds.update(builds)
        self.row_cells.update(row_cells(examined.run))
        self.compared += bool(examined.run.results)
        self.undefined += registry.is_missing_definition(examined.run, examined.verdicts)

    def add_outcome(self, examined: Examination, cases: int) -> None:
        """Add the outcome of a case, or take it back if `cases` is -1."""
        outcome = examined.outcome
        self.outcomes[outcome] += cases
        if outcome is Outcome.ABSTAIN:
            self.reasons.update(dict.fromkeys(registry.reasons(examined.verdicts), cases))
        elif examined.run.case.scale is Scale.OVERSIZED:
            self.oversized += cases
        elif examined.run.case.scale is Scale.LONG:
            self.long += cases


def is_checked(picked: PickedConfig, run: Run) -> bool:
    """Return True if the run shows something about a config: its case ended, and the library asked for the config."""
    return isinstance(run.ending, Completed) and picked.function not in run.unasked


def builds_of(examined: Examination) -> frozenset[str]:
    """Return the builds that the case launched; none if the engine leaves no TTIR to compile."""
    run = examined.run
    if not run.engine_traits.has_provenance:
        return frozenset()
    return frozenset(launch.build for launch in compiled_launches(run))


def _asked(examined: Examination) -> Iterator[Traits]:
    """Yield the traits of the oracles that judged the case, if only to abstain."""
    return (registry.traits_of(verdict.oracle) for verdict in examined.verdicts)


def _possible_second_runs(examined: Examination) -> Iterator[SecondRun]:
    """Yield the kinds of paired runs that some case like this one gets."""
    run = examined.run
    if not run.launches or not isinstance(run.ending, Completed) or run.case.scale is Scale.OVERSIZED:
        return
    asked = {traits.second_run for traits in _asked(examined)}
    is_tuned = any(launch.config_count > 1 for launch in run.launches)
    by_triton = (launch for launch in run.launches if not launch.model and not GENERATED.match(launch.kernel))
    is_tuned_by_triton = any(launch.config_count > 1 for launch in by_triton)
    if SecondRun.SM_COUNT in asked:
        yield SecondRun.SM_COUNT
    if SecondRun.CONFIG in asked and is_tuned:
        yield SecondRun.CONFIG
    if is_tuned_by_triton and run.engine_traits.checks_tuning:
        yield from (kind for kind in (SecondRun.TUNING, SecondRun.KEYS) if kind in asked)
    if SecondRun.LATER in asked and run.engine_traits.checks_tuning:
        yield SecondRun.LATER
    if SecondRun.ORDER in asked and run.engine_traits.has_provenance and order_matters(run.launches, run.memory):
        yield SecondRun.ORDER
