"""The reduction of a kernel's source: which passes there are, and in which order they go."""

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
"""From coarse to fine: what takes most away goes first, while each answer is still expensive."""


def reduce_kernel(
    source: str, shows: Callable[[str], bool], *, seconds: float, tell: Callable[[str], object] = lambda _: None
) -> str:
    """A much smaller text for which `shows` still holds: a text that it has accepted, or `source` itself.

    `source` is a file of imports, kernels, device functions and a function that makes the arguments and launches.
    `shows` must hold for it, and must answer the same for the same text; it is asked once for each.  After `seconds`
    the smallest text so far is laid out and returned.  `tell` hears about progress.

    Raises:
        ValueError: `shows` does not hold for the source.
    """
    if not shows(source):
        raise ValueError("the source does not show what its reduction is to show")
    search = Search(source, shows, seconds)
    search.lay_out(formatting.lay_out)
    before = ""
    is_first = True
    while before != search.text and not search.exhausted:
        before = search.text
        for offer in PASSES:
            was = lines(search.text)
            search.take(offer, by_halves=is_first)
            if lines(search.text) != was:
                tell(f"{lines(search.text)} lines after {search.tries} tries")
        search.lay_out(formatting.lay_out)
        is_first = False
    return search.text
