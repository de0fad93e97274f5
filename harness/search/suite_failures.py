"""Exceptions of suites: of what makes the inputs, and of definitions.  They say nothing about the library."""

from dataclasses import dataclass, field
from inspect import unwrap

from harness.model.ending import Ending, Raised
from harness.model.op import Op
from harness.oracles.completes import main_line
from harness.oracles.endings import ResponsibleOracle, responsible_oracle
from harness.search.campaign_statistics import Trial

WHAT = {"inputs": "the making of inputs", "reference": "the definition"}


@dataclass(slots=True, kw_only=True)
class SuiteFailures:
    """The exceptions that the suites of one campaign raised, each by its op, phase, class and line."""

    _first: dict[tuple[str, ...], tuple[Trial, Raised]] = field(
        default_factory=dict[tuple[str, ...], tuple[Trial, Raised]]
    )

    def see(self, trial: Trial, ending: Ending) -> None:
        """Keep the ending if it is the suite's fault, and the earliest of its kind."""
        if not isinstance(ending, Raised) or responsible_oracle(ending) is not ResponsibleOracle.SUITE:
            return
        kind = (trial.op.id, ending.phase, ending.kind, str(ending.source))
        known = self._first.get(kind)
        if known is None or trial.order_key < known[0].order_key:
            self._first[kind] = trial, ending

    def messages(self) -> list[str]:
        """Return one line for each, in the order of their cases."""
        in_order = sorted(self._first.values(), key=lambda first: first[0].order_key)
        return [_message(trial, raised) for trial, raised in in_order]


def _message(trial: Trial, raised: Raised) -> str:
    op = trial.op
    what = WHAT.get(raised.phase, "the comparison with the definition")
    text = f"{raised.kind}: {main_line(raised.message)}" if raised.message else raised.kind
    return f"{_place(op, raised)}: {what} of op {op.name!r} raised {text} ({trial.case})"


def _place(op: Op, raised: Raised) -> str:
    """Return file and line of the exception, or else those of the op's declaration."""
    function = getattr(unwrap(op.call), "__code__", None)
    if raised.source is None:
        return op.suite if function is None else f"{op.suite}:{function.co_firstlineno}"
    is_own = function is not None and raised.source.file == function.co_filename
    return f"{op.suite if is_own else raised.source.file}:{raised.source.line}"
