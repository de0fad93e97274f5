"""The suite files of a check: one that asks for samples, one with the candidate's ops, one for the referee."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from harness.checks.answer import NO_BACKWARD, REFUSED, Answer
from harness.checks.rare_cases import longest_of
from harness.checks.sampled_task import SampledDim, SampledInput, SampledTask, SampleOrder
from harness.drafts.suite_text import OpText, SuiteText, in_braces
from harness.model.input_spec import Draw

ABOUT = "Written by harness check."
IMPORTS = (
    "from harness.checks.answer import Answer, ArgumentForm, CodePlace",
    "from harness.model.input_spec import extent_of",
)
SAMPLES = "samples"
FORWARD = "_forward"
REFEREE = "referee"
SAMPLED = "sampled"
"""The function of a suite that returns the sample's tensors."""


def write_sample_suite(path: Path, order: SampleOrder) -> None:
    op = OpText(
        name=SAMPLES,
        more={"launches": "False", "forks": "False"},
        body=("from harness.checks.sampling import sample", "", "sample(ORDER)"),
        definition=("return None",),
    )
    imports = (*IMPORTS, "from harness.checks.sampled_task import SampleOrder")
    suite = SuiteText(about=ABOUT, imports=imports, top=(f"ORDER = {order!r}",), ops=(op,))
    path.write_text(str(suite), encoding="utf-8")


def write_suite(path: Path, answer: Answer, task: SampledTask) -> str:
    """Write the ops of a candidate, with gradients and without; return the name of the first."""
    name = _name(answer)
    _write(path, answer, task, (_candidate_op(name, task), _candidate_op(f"{name}{FORWARD}", _without_gradients(task))))
    return name


def write_referee_suite(path: Path, answer: Answer, task: SampledTask) -> None:
    """Write the ops of the referee, with gradients and without."""
    compare = ("from harness.checks.referee import compare", "", f"return compare({_arguments(task)})")

    def op(name: str, task: SampledTask) -> OpText:
        return _op(name, task, body=compare, definition=("return None",), launches="False")

    _write(path, answer, task, (op(REFEREE, task), op(f"{REFEREE}{FORWARD}", _without_gradients(task))))


def _candidate_op(name: str, task: SampledTask) -> OpText:
    calls, arguments = "from harness.checks.candidate_calls import", _arguments(task)
    op = _op(
        name,
        task,
        body=(f"{calls} call", "", f"return call({arguments}, again=again)"),
        definition=(f"{calls} define", "", f"return define({arguments})"),
        options='{"again": (False, True)}',
        refuses=f'("{REFUSED}", "{NO_BACKWARD}")',
    )
    return replace(op, passed=(*op.passed, "again"))


def _op(name: str, task: SampledTask, *, body: Sequence[str], definition: Sequence[str], **more: str) -> OpText:
    parameters = [part.name for part in (*task.inputs, *task.dims)]
    if limits := _limits(task):
        more["where"] = f"lambda at: all(extent_of(few, at) <= extent_of(many, at) for few, many in {limits!r})"
    if task.sample:
        more["sample"] = SAMPLED
    return OpText(
        name=name,
        dims={dim.name: _dim(dim) for dim in task.dims},
        inputs={sampled.name: _input(sampled) for sampled in task.inputs},
        more={"dtypes": f"(DType.{task.dtype.name},)", "contiguous": '"rows"', "forks": "False", **more},
        passed=parameters,
        body=body,
        defined=parameters,
        definition=definition,
    )


def _write(path: Path, answer: Answer, task: SampledTask, ops: Sequence[OpText]) -> None:
    answer = replace(
        answer,
        arguments=task.arguments,
        weights=task.weights,
        repeats=task.repeats,
        mutated=task.mutated,
    )
    top = [f"ANSWER = {answer!r}"]
    if task.sample:
        read = "from harness.checks.sampling import read_sample"
        top += ["", "", f"def {SAMPLED}():", f"    {read}", "", f"    return read_sample({task.sample!r})"]
    suite = SuiteText(about=ABOUT, imports=IMPORTS, top=top, ops=ops)
    path.write_text(str(suite), encoding="utf-8")


def _without_gradients(task: SampledTask) -> SampledTask:
    return replace(task, inputs=tuple(replace(sampled, has_gradient=False) for sampled in task.inputs))


def _arguments(task: SampledTask) -> str:
    tensors, sizes = ({part.name: part.name for part in parts} for parts in (task.inputs, task.dims))
    return f"ANSWER, {in_braces(tensors)}, {in_braces(sizes)}"


def _dim(dim: SampledDim) -> str:
    rest = f"choices={dim.choices!r}" if dim.choices else f"long={longest_of(dim.sizes)}"
    return f"Dim(low={dim.low}, high={dim.high}, {rest})"


def _input(sampled: SampledInput) -> str:
    shape = "".join(f"{extent!r}, " for extent in sampled.shape)
    if sampled.is_integer:
        kind = "int64" if sampled.is_wide else "int32"
        if sampled.total:
            return (
                f'segments({sampled.total!r}, {_count(sampled)!r}, dtype="{kind}", may_be_empty={sampled.may_be_empty})'
            )
        ignored = "" if sampled.ignored is None else f", ignore={sampled.ignored}"
        distinct = sampled.is_distinct or ("rows" if sampled.has_distinct_rows else False)
        order = f", distinct={distinct!r}" if distinct else ""
        order += ", ascending=True" if sampled.is_ascending else ""
        return f'integers({shape}low={sampled.low}, high={sampled.high!r}, dtype="{kind}"{ignored}{order})'
    return f"tensor({shape}{', '.join(_settings(sampled))})"


def _settings(sampled: SampledInput) -> Iterator[str]:
    yield f"grad={sampled.has_gradient}"
    if sampled.is_weight:
        yield "contiguous=True"
    if sampled.dtype is not None:
        yield f"dtype=DType.{sampled.dtype.name}"
    if sampled.draw is not Draw.VALUES:
        yield f"draw=Draw.{sampled.draw.name}"
    if sampled.has_distinct_rows:
        yield "distinct=True"
    if sampled.is_ascending:
        yield "ascending=True"


def _count(sampled: SampledInput) -> str:
    """Return the number of packed sequences as an extent: one less than that of boundaries."""
    return f"{sampled.shape[0]}-1"


def _limits(task: SampledTask) -> tuple[tuple[str, str], ...]:
    """Return pairs of extents, the first of which may not exceed the second: as many integers as there can be."""
    limits: list[tuple[str, str]] = []
    for sampled in task.inputs:
        if sampled.total:
            limits.append((_count(sampled), sampled.total))
        elif sampled.is_integer and (sampled.is_distinct or sampled.has_distinct_rows):
            count = "*".join(sampled.shape) if sampled.is_distinct else sampled.shape[-1]
            limits.append((count, f"{sampled.high}-{sampled.low}"))
    return tuple(limits)


def _name(answer: Answer) -> str:
    name = answer.candidate.name.rpartition(".")[2]
    return f"check_{name}" if name in {SAMPLES, REFEREE, SAMPLED, "op", "tensor", "integers"} else name
