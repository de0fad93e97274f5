"""Write `suites/torch/operators.json`: torch's operators with calls of them, or why they are left out.

The calls have the shapes and settings of torch's own tests.  It needs the package `expecttest`, which these import.

    python ci/list_operators.py suites/torch/operators.json
"""

import json
import math
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import torch

from harness.catalogue import find
from harness.execution.inputs import TORCH_DTYPES, draw
from harness.execution.layouts import lay_out
from harness.model.case import USUAL_DTYPES, Case, DType, Layout, ValueDistribution
from harness.model.input_spec import Draw
from harness.suite import beside

CALLS: Any = beside(__file__, "../suites/torch/calls.py")
SAMPLES = 6
"""The largest number of samples of an operator."""
LOOKED_AT = 300
"""The number of torch's samples from which these are chosen."""
ELEMENTS = 20_000
INTEGERS = 300
"""The largest sizes of a sample's tensors."""
VALUES = tuple(one for one in ValueDistribution if one is not ValueDistribution.NAN_TAINTED)

NOT_UNIQUE = "its result is not unique"
ROUNDS = "its definition names the type that it rounds to"
BITS = "its result depends on the type's bits"
UNINITIALISED = "its result is uninitialised memory"
TIES = "its choice among equal elements is free"
RANDOM = "it is random"
BY_STORAGE = "its result depends on its input's strides"
BY_TYPE = "the default of an argument depends on the type"
NUMBERS = "it has no function of tensors under its name"
ILL_POSED = "its input must be a matrix of a kind that random values are not"
LEFT_OUT = {
    **dict.fromkeys(
        (
            *("linalg.eig", "linalg.eigh", "linalg.qr", "qr", "linalg.svd", "svd", "svd_lowrank", "pca_lowrank"),
            *("geqrf", "linalg.lstsq", "linalg.eigvals", "linalg.ldl_factor", "linalg.ldl_factor_ex"),
            *("lu", "linalg.lu", "linalg.lu_factor", "linalg.lu_factor_ex"),
        ),
        NOT_UNIQUE,
    ),
    **dict.fromkeys(
        ("bfloat16", "half", "float", "double", "to", "chalf", "cfloat", "cdouble", "type_as", "scalar_tensor"), ROUNDS
    ),
    **dict.fromkeys(("as_strided", "as_strided_copy", "as_strided_scatter"), BY_STORAGE),
    "nn.functional.rms_norm": BY_TYPE,
    "kron": "torch 2.13 raises for a factor whose last two axes are swapped",
    "native_group_norm": "torch 2.13 computes it wrongly if elements of a weight or bias are not adjacent",
    **dict.fromkeys(("sort", "msort", "topk", "kthvalue", "mode", "median", "nanmedian", "masked.median"), TIES),
    **dict.fromkeys(("nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d"), RANDOM),
    **dict.fromkeys(("nextafter", "hash_tensor", "finfo"), BITS),
    **dict.fromkeys(
        (
            *("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"),
            *("resize_", "resize_as_"),
        ),
        UNINITIALISED,
    ),
    **dict.fromkeys(
        (
            *("cholesky", "cholesky_inverse", "cholesky_solve", "linalg.cholesky", "linalg.cholesky_ex"),
            *("ormqr", "linalg.householder_product", "linalg.pinv", "pinverse", "linalg.matrix_rank", "lu_solve"),
            *("linalg.lu_solve", "linalg.ldl_solve", "lu_unpack", "linalg.cond", "linalg.inv", "linalg.inv_ex"),
            *("linalg.solve", "linalg.solve_ex", "linalg.solve_triangular", "linalg.tensorinv", "linalg.tensorsolve"),
            *("triangular_solve", "linalg.matrix_power", "logdet", "linalg.slogdet"),
        ),
        ILL_POSED,
    ),
}


class LeftOut(Exception):
    """A reason to leave out a sample or an operator."""


def main(target: str) -> None:
    """Write the list, and print how many operators it has and for what reasons others are left out."""
    from torch.testing._internal.common_methods_invocations import op_db  # noqa: PLC0415  # no public name

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    operators: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    for info in op_db:
        name = "_".join(filter(None, (info.name.replace(".", "_"), info.variant_test_name)))
        try:
            operators[name.replace("-", "_")] = _entry(info)
        except LeftOut as reason:
            reasons[name] = str(reason)
        except Exception as error:  # noqa: BLE001 - torch's own samples may raise anything
            reasons[name] = f"its samples raise {type(error).__name__}"
        print(name, reasons.get(name, ""), file=sys.stderr, flush=True)
    lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in sorted(operators.items())]
    excluded = [f"{json.dumps(name)}: {json.dumps(why)}" for name, why in sorted(reasons.items())]
    Path(target).write_text(
        '{"operators": {\n' + ",\n".join(lines) + '\n}, "left_out": {\n' + ",\n".join(excluded) + "\n}}\n"
    )
    print(len(operators), "operators,", sum(len(one["samples"]) for one in operators.values()), "samples")
    for why, count in Counter(reasons.values()).most_common():
        print(f"{count:4} {why}")


def _entry(info: Any) -> dict[str, Any]:
    """Return an operator's entry."""
    if reason := LEFT_OUT.get(info.name):
        raise LeftOut(reason)
    function = info.name.removeprefix("torch.ops.aten.").removesuffix(".default").removeprefix("torch.")
    found: dict[str, tuple[Any, dict[str, Any], list[torch.Tensor]]] = {}
    why = "torch has no samples of it"
    for given in _given(info):
        try:
            sample, tensors = _sample(given)
        except LeftOut as reason:
            why = str(reason)
            continue
        found.setdefault(json.dumps(sample), (given, sample, tensors))
    if not found:
        raise LeftOut(why)
    step = max(1, len(found) // SAMPLES)
    chosen = list(found.values())[::step][:SAMPLES]
    draws = _draws([tensors for *_, tensors in chosen])
    samples: list[dict[str, Any]] = []
    dtypes: set[DType] = set(USUAL_DTYPES)
    gradients = [True] * len(draws)
    for given, sample, tensors in chosen:
        try:
            _agrees(info, function, given, sample, tensors)
            allowed, differentiable = _works(function, sample, draws)
        except LeftOut as reason:
            why = str(reason)
            continue
        dtypes &= allowed
        gradients = [known and has for known, has in zip_longest(gradients, differentiable, fillvalue=True)]
        samples.append(sample)
    if not samples or not dtypes:
        raise LeftOut(why)
    return {
        "function": function,
        "dtypes": [one.value for one in USUAL_DTYPES if one in dtypes],
        "gradients": gradients,
        "draws": [one.value for one in draws],
        "samples": samples,
    }


def _given(info: Any) -> Iterator[Any]:
    torch.manual_seed(0)
    try:
        yield from islice(info.sample_inputs("cpu", torch.float32, requires_grad=False), LOOKED_AT)
    except Exception as error:
        raise LeftOut(f"torch has no samples of it in float32 ({type(error).__name__})") from error


def _sample(given: Any) -> tuple[dict[str, Any], list[torch.Tensor]]:
    """Return a call as JSON, and its tensors of floating-point numbers."""
    tensors: list[torch.Tensor] = []
    args = [_encoded(one, tensors) for one in (given.input, *given.args)]
    kwargs = {name: _encoded(one, tensors) for name, one in given.kwargs.items()}
    if not tensors:
        raise LeftOut("it takes no tensor of floating-point numbers")
    return {"args": args, "kwargs": kwargs, "shapes": [list(one.shape) for one in tensors]}, tensors


def _encoded(value: Any, tensors: list[torch.Tensor]) -> Any:
    match value:
        case torch.Tensor():
            return _encoded_tensor(value, tensors)
        case bool() | int() | str() | None:
            return value
        case float():
            return value if math.isfinite(value) else {"number": str(value)}
        case list():
            return [_encoded(one, tensors) for one in value]
        case tuple():
            return {"tuple": [_encoded(one, tensors) for one in value]}
        case slice():
            return {"slice": [value.start, value.stop, value.step]}
        case torch.dtype():
            raise LeftOut(ROUNDS)
        case _ if value is ...:
            return {"ellipsis": True}
        case _:
            raise LeftOut(f"it takes a {type(value).__name__}")


def _encoded_tensor(value: torch.Tensor, tensors: list[torch.Tensor]) -> Any:
    if value.layout is not torch.strided or value.is_complex():
        raise LeftOut("it takes complex or sparse tensors")
    if value.is_floating_point() and value.itemsize == 1:
        raise LeftOut("it takes 8-bit numbers")
    if not 0 < value.numel() <= (ELEMENTS if value.is_floating_point() else INTEGERS):
        raise LeftOut("its tensors are empty or large")
    if value.is_floating_point():
        if any(one is value for one in tensors):
            return {"tensor": next(at for at, one in enumerate(tensors) if one is value)}
        tensors.append(value.detach())
        return {"tensor": len(tensors) - 1}
    dtype = str(value.dtype).removeprefix("torch.")
    return {"integers": value.reshape(-1).tolist(), "shape": list(value.shape), "dtype": dtype}


def _agrees(info: Any, function: str, given: Any, sample: dict[str, Any], tensors: list[torch.Tensor]) -> None:
    """Check that the call in JSON is torch's own."""
    try:
        torch.manual_seed(0)
        ours = CALLS.call(function, sample, [one.clone() for one in tensors])
    except Exception as error:
        raise LeftOut(NUMBERS) from error
    torch.manual_seed(0)
    theirs = info.op(_copied(given.input), *_copied(given.args), **_copied(given.kwargs))
    kept = theirs if isinstance(theirs, torch.Tensor) else tuple(one for one in theirs if isinstance(one, torch.Tensor))
    if not _equal(ours, kept):
        raise LeftOut(NUMBERS)


def _copied(value: Any) -> Any:
    match value:
        case torch.Tensor():
            return value.clone()
        case list():
            return [_copied(one) for one in value]
        case tuple():
            return tuple(_copied(one) for one in value)
        case dict():
            return {name: _copied(one) for name, one in value.items()}
        case _:
            return value


def _draws(samples: list[list[torch.Tensor]]) -> list[Draw]:
    """Return the draws of the tensors, whose range is that of torch's own values."""

    def drawn(each: list[torch.Tensor]) -> Draw:
        least, most = min(float(one.min()) for one in each), max(float(one.max()) for one in each)
        if least < 0 or sum(one.numel() for one in each) < 5:
            return Draw.VALUES
        return Draw.UNIT if most <= 1 else Draw.POSITIVE

    count = max(map(len, samples))
    return [drawn([tensors[at] for tensors in samples if at < len(tensors)]) for at in range(count)]


def _works(function: str, sample: dict[str, Any], draws: list[Draw]) -> tuple[set[DType], list[bool]]:
    """Return the types that the call works in, whatever the values, and which of its tensors may have gradients."""
    allowed: set[DType] = set()
    gradients = [True] * len(sample["shapes"])
    for dtype in USUAL_DTYPES:
        try:
            for values in VALUES:
                inputs = _inputs(sample, draws, dtype, values)
                gradients = _differentiable(function, sample, inputs, gradients)
                for others in ([lay_out(one, Layout.STRIDED) for one in inputs], [one.double() for one in inputs]):
                    gradients = _differentiable(function, sample, others, gradients)
            allowed.add(dtype)
        except LeftOut:
            if dtype is DType.FP32:
                raise
    inputs = [_inputs(sample, draws, DType.FP32, ValueDistribution.NORMAL, seed) for seed in (0, 1)]
    first, other = (_outputs(function, sample, one) for one in inputs)
    if not _equal(first, _outputs(function, sample, inputs[0])):
        raise LeftOut(RANDOM)
    if _equal(first, other):
        raise LeftOut("it does not depend on its input's values")
    return allowed, gradients


def _outputs(function: str, sample: dict[str, Any], inputs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    try:
        made = CALLS.call(function, sample, [one.detach() for one in inputs])
    except Exception as error:
        raise LeftOut(f"it raises {type(error).__name__} for some values or layouts") from error
    made = (made,) if isinstance(made, torch.Tensor) else made
    if any(one.is_complex() for one in made):
        raise LeftOut("its results are complex")
    if not any(one.is_floating_point() for one in made):
        raise LeftOut("it returns no floating-point numbers")
    if any(one.layout is not torch.strided for one in made):
        raise LeftOut("its results are sparse")
    return made


def _differentiable(
    function: str, sample: dict[str, Any], inputs: list[torch.Tensor], gradients: list[bool]
) -> list[bool]:
    """Return which of the tensors still may have gradients: all of these together, or else each by itself."""
    _outputs(function, sample, inputs)
    if _runs_backward(function, sample, inputs, gradients):
        return gradients
    count = len(gradients)
    alone = [[other == at for other in range(count)] for at in range(count)]
    return [
        wanted and _runs_backward(function, sample, inputs, only) for wanted, only in zip(gradients, alone, strict=True)
    ]


def _runs_backward(function: str, sample: dict[str, Any], inputs: list[torch.Tensor], gradients: list[bool]) -> bool:
    """Return False if backward rejects an input, or a layout of the incoming gradients."""
    leaves = [one.detach().requires_grad_(wanted) for one, wanted in zip(inputs, gradients, strict=True)]
    try:
        made = CALLS.call(function, sample, [one.view_as(one) for one in leaves])
        outputs = [one for one in ((made,) if isinstance(made, torch.Tensor) else made) if one.requires_grad]
        if outputs:
            ones = [lay_out(torch.ones_like(one), Layout.OFFSET) for one in outputs]
            torch.autograd.grad(outputs, [one for one in leaves if one.requires_grad], ones, allow_unused=True)
    except (RuntimeError, NotImplementedError):
        return False
    return True


def _inputs(
    sample: dict[str, Any], draws: list[Draw], dtype: DType, values: ValueDistribution, seed: int = 0
) -> list[torch.Tensor]:
    case = Case(op="", dims={}, dtype=dtype, device=find("h200"), values=values, seed=seed)
    return [
        draw(case, f"x{at}", tuple(shape), TORCH_DTYPES[dtype], how)
        for at, (shape, how) in enumerate(zip(sample["shapes"], draws, strict=False))
    ]


def _equal(first: Any, other: Any) -> bool:
    if isinstance(first, torch.Tensor) or isinstance(other, torch.Tensor):
        first, other = (
            (first if isinstance(first, tuple) else (first,)),
            (other if isinstance(other, tuple) else (other,)),
        )
    return len(first) == len(other) and all(
        one.shape == two.shape
        and one.dtype == two.dtype
        and one.layout == two.layout is torch.strided
        and torch.allclose(one, two, rtol=0, atol=0, equal_nan=True)
        for one, two in zip(first, other, strict=True)
    )


if __name__ == "__main__":
    main(sys.argv[1])
