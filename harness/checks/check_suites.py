"""The suite files of a check: one that asks for samples, one with the candidate's ops, one for the referee."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from harness.checks.answer import NO_BACKWARD, REFUSED, Answer
from harness.checks.rare_cases import longest_of
from harness.checks.sampled_task import SampledDim, SampledInput, SampledTask, SampleOrder
from harness.model.input_spec import Draw

HEAD = '''"""Written by harness check."""

'''
SAMPLES = "samples"
FORWARD = "_forward"
REFEREE = "referee"


def write_sample_suite(path: Path, order: SampleOrder) -> None:
    path.write_text(
        f"""{HEAD}from harness.checks.answer import Answer, CodePlace
from harness.checks.sampled_task import SampleOrder
from harness.suite import op

ORDER = {order!r}


@op(dims={{}}, inputs={{}}, launches=False)
def {SAMPLES}():
    from harness.checks.sampling import sample

    sample(ORDER)


@{SAMPLES}.reference
def nothing():
    return None
""",
        encoding="utf-8",
    )


def write_suite(path: Path, answer: Answer, task: SampledTask) -> str:
    """Write the ops of a candidate, with gradients and without; return the name of the first."""
    name = _name(answer)
    answer = replace(answer, arguments=task.arguments, mutated=task.mutated)
    plain = replace(task, inputs=tuple(replace(given, has_gradient=False) for given in task.inputs))
    ops = "\n\n".join((_op(name, task), _op(f"{name}{FORWARD}", plain)))
    path.write_text(f"{_top(answer)}{ops}", encoding="utf-8")
    return name


def write_referee_suite(path: Path, answer: Answer, task: SampledTask) -> None:
    answer = replace(answer, arguments=task.arguments, mutated=task.mutated)
    plain = replace(task, inputs=tuple(replace(given, has_gradient=False) for given in task.inputs))
    names = ", ".join(f'"{given.name}": {given.name}' for given in task.inputs)
    sizes = ", ".join(f'"{dim.name}": {dim.name}' for dim in task.dims)
    path.write_text(
        f"""{_top(answer)}@op({_declared(plain)}, launches=False)
def {REFEREE}({_parameters(task)}):
    from harness.checks.referee import compare

    compare(ANSWER, {{{names}}}, {{{sizes}}})


@{REFEREE}.reference
def nothing():
    return None
""",
        encoding="utf-8",
    )


def _top(answer: Answer) -> str:
    return f"""{HEAD}from harness.checks.answer import Answer, ArgumentForm, CodePlace
from harness.suite import Dim, DType, Draw, integers, op, tensor

ANSWER = {answer!r}


"""


def _op(name: str, task: SampledTask) -> str:
    names = ", ".join(f'"{given.name}": {given.name}' for given in task.inputs)
    sizes = ", ".join(f'"{dim.name}": {dim.name}' for dim in task.dims)
    refuses = f'refuses=("{REFUSED}", "{NO_BACKWARD}")'
    return f"""@op({_declared(task)}, options={{"again": (False, True)}}, {refuses})
def {name}({_parameters(task)}, again):
    from harness.checks.candidate_calls import call

    return call(ANSWER, {{{names}}}, {{{sizes}}}, again=again)


@{name}.reference
def {name}_reference({_parameters(task)}):
    from harness.checks.candidate_calls import define

    return define(ANSWER, {{{names}}}, {{{sizes}}})
"""


def _declared(task: SampledTask) -> str:
    dims = ", ".join(f'"{dim.name}": {_dim(dim)}' for dim in task.dims)
    inputs = ", ".join(f'"{given.name}": {_input(given)}' for given in task.inputs)
    return f"dims={{{dims}}}, inputs={{{inputs}}}, dtypes=(DType.{task.dtype.name},)"


def _parameters(task: SampledTask) -> str:
    return ", ".join((*(given.name for given in task.inputs), *(dim.name for dim in task.dims)))


def _dim(dim: SampledDim) -> str:
    rest = f"choices={dim.choices!r}" if dim.choices else f"long={longest_of(dim.sizes)}"
    return f"Dim(low={dim.low}, high={dim.high}, {rest})"


def _input(given: SampledInput) -> str:
    shape = "".join(f"{extent!r}, " for extent in given.shape)
    if given.is_integer:
        kind = "int64" if given.is_wide else "int32"
        return f'integers({shape}low={given.low}, high={given.high!r}, dtype="{kind}")'
    return f"tensor({shape}{', '.join(_settings(given))})"


def _settings(given: SampledInput) -> Iterator[str]:
    yield f"grad={given.has_gradient}"
    if given.dtype is not None:
        yield f"dtype=DType.{given.dtype.name}"
    if given.draw is not Draw.VALUES:
        yield f"draw=Draw.{given.draw.name}"


def _name(answer: Answer) -> str:
    name = answer.candidate.name.rpartition(".")[2]
    return f"check_{name}" if name in {SAMPLES, REFEREE, "op", "tensor", "integers"} else name
