"""The reference of `harness.suite`, from its source."""

import inspect
from enum import Enum
from typing import Any

from ci.reference.markdown import code, table
from ci.reference.source_docs import fields_of, paragraphs, signature
from harness import kernel_tests, suite
from harness.checks import check_verdict, checker
from harness.model.flaw_kind import FlawKind
from harness.model.op import Op
from harness.watched import watched_block

SET_BY_DECORATORS = frozenset({"name", "suite", "call", "reference", "dims", "inputs"})
"""The fields of an op that are no further arguments of `op`."""


def names() -> str:
    """Return a section for every public name: functions first, then classes."""
    public = [getattr(suite, name) for name in suite.__all__]
    functions = [_function(one) for one in public if inspect.isfunction(one)]
    return "\n\n".join((*functions, *(_class(one) for one in public if inspect.isclass(one))))


def kernel_test() -> str:
    """Return the section of the decorator for tests."""
    return _function(kernel_tests.kernel_test)


def run() -> str:
    """Return the section of `harness.run`."""
    return _function(watched_block.run)


def check() -> str:
    """Return the sections of a check and its verdict."""
    classes = (
        check_verdict.CheckVerdict,
        check_verdict.Ruling,
        check_verdict.CandidateFlaw,
        FlawKind,
    )
    return "\n\n".join((_function(checker.check), *map(_class, classes)))


def arguments_of_op() -> str:
    """Return a table of the optional arguments of `op`: the other fields of an op."""
    rows = (
        (code(field.name), code(field.type), code(field.value), " ".join(field.text.split()))
        for field in fields_of(Op)
        if field.name not in SET_BY_DECORATORS
    )
    return table(("argument", "type", "default", "meaning"), rows)


def _function(function: Any) -> str:
    block = f"```python\n{signature(function)}\n```"
    return "\n\n".join((f"### {function.__name__}", block, paragraphs(function)))


def _class(of: type[Any]) -> str:
    fields = fields_of(of)
    if issubclass(of, Enum):
        rows = ((code(f"{of.__name__}.{each.name}"), code(each.value), " ".join(each.text.split())) for each in fields)
        members = table(("member", "value", "meaning"), rows)
    else:
        rows = (
            (code(each.name), code(each.type), code(each.value) if each.value else "", " ".join(each.text.split()))
            for each in fields
        )
        members = table(("field", "type", "default", "meaning"), rows)
    return "\n\n".join((f"### {of.__name__}", paragraphs(of), members))
