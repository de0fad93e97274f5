"""The reduction of a kernel's source: the list of passes, repeated until none helps."""

from collections.abc import Callable

from harness.findings.reduction import constants, expressions, folding, formatting, parameters, statements, temporaries
from harness.findings.reduction.search import Pass, Search
from harness.findings.reduction.text_size import lines

PASSES: tuple[Pass, ...] = (
    statements.split_assignments,
    temporaries.inline_plain,
    parameters.inline_constants,
    folding.fold_literals,
    folding.decide_branches,
    statements.drop_unused,
    parameters.drop_parameters,
    parameters.forget_parameters,
    statements.drop_statements,
    statements.drop_else,
    statements.take_bodies,
    statements.take_else,
    statements.run_loops_once,
    statements.assign_plainly,
    statements.forget_names,
    constants.variables_become("0.0"),
    constants.variables_become("0"),
    expressions.take_receivers,
    expressions.drop_keywords,
    expressions.drop_last_arguments,
    expressions.take_subscripted,
    expressions.drop_dimension(0),
    expressions.drop_dimension(1),
    constants.calls_become("0.0"),
    constants.calls_become("0"),
    *(expressions.take_argument(place) for place in range(expressions.MOST_ARGUMENTS)),
    expressions.take_then,
    expressions.take_otherwise,
    expressions.take_left,
    expressions.take_right,
    expressions.drop_elements,
    expressions.drop_first_elements,
    *(constants.shrink_to(extent) for extent in constants.EXTENTS),
    constants.halve,
    constants.plain_fractions,
    parameters.drop_decorators,
    parameters.drop_decorator_arguments,
    parameters.drop_annotations,
    temporaries.merge_single_uses,
    expressions.drop_parentheses,
    formatting.drop_comments,
)
"""From coarse to fine: the largest cuts come first, while each try is still expensive."""


def reduce_kernel(
    source: str,
    is_interesting: Callable[[str], bool],
    *,
    seconds: float,
    report: Callable[[str], object] = lambda _: None,
) -> str:
    """Return a smaller text that `is_interesting` has accepted, or `source` itself.

    Args:
        source: a file of imports, kernels, device functions, and a function that makes the arguments and launches.
        is_interesting: the test, which must accept `source` and be deterministic; it sees each text once.
        seconds: after this time, the smallest text so far is laid out and returned.
        report: gets a line for each step of progress.

    Raises:
        ValueError: `is_interesting` refuses the source.
    """
    if not is_interesting(source):
        raise ValueError("the test of the reduction refuses the unreduced source")
    search = Search(source, is_interesting, seconds)
    search.lay_out(formatting.lay_out)
    before = ""
    is_first = True
    while before != search.text and not search.exhausted:
        before = search.text
        for offer in PASSES:
            was = lines(search.text)
            search.take(offer, by_halves=is_first)
            if lines(search.text) != was:
                report(f"{lines(search.text)} lines after {search.tries} tries")
        search.lay_out(formatting.lay_out)
        is_first = False
    return search.text
