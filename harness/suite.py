"""The interface for suite files: `op`, kinds of inputs, and ranges of sizes; and the loader of suite files.

A suite declares ops.  An op has a function that calls the library, and a reference in differentiable torch:

    from harness.suite import op, tensor, tokens, width

    @op(dims={"T": tokens(), "D": width()}, inputs={"x": tensor("T", "D"), "w": tensor("D", optional=True)})
    def rms_norm(x, w):
        from my_library import rms_norm
        return rms_norm(x, w, eps=1e-6)

    @rms_norm.reference
    def reference(x, w):
        y = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        return y if w is None else y * w

A suite imports the library under test, torch, Triton and JAX inside its functions, never at its top.  The parent
process loads the file too, and must stay free of them.  Kernels of a suite's own are in a file that `beside` loads.
"""

import builtins
import dataclasses
import functools
import hashlib
import importlib
import importlib.util
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypedDict, TypeVar, Unpack

from harness.errors import SuiteError, unknown
from harness.model.case import DType
from harness.model.host_configs import DEVICE, HostConfigs
from harness.model.input_spec import (
    Built,
    Contiguity,
    Distinct,
    Draw,
    Extent,
    Input,
    Integer,
    Integers,
    Segments,
    Shaped,
    Sizes,
    Tensor,
    extent_of,
)
from harness.model.op import GRADIENTS, Dim, Op, OpSettings
from harness.suite_files import MODULE_PREFIX, located, portable_name

__all__ = [
    "DType",
    "Dim",
    "Draw",
    "attention",
    "beside",
    "built",
    "compiled",
    "config_tables",
    "dequantised",
    "drawn_from",
    "groups",
    "integers",
    "jax_call",
    "listed_configs",
    "load_suite",
    "op",
    "owned",
    "ragged",
    "segment_ids",
    "segments",
    "sizes",
    "tensor",
    "tokens",
    "width",
]

FORBIDDEN_AT_TOP = ("triton", "torch", "jax")
ARGUMENTS = frozenset({"dims", "inputs", *OpSettings.__annotations__})
"""The keyword arguments of `op`."""
CONTIGUITIES = (False, True, "rows")
BY_NAME = ("dims", "inputs", "options", "environment", "host_configs", "stubs")
SEVERAL = ("dtypes", "requires", "refuses", "waives", "apart", "independent", "buckets")

INSTALLED = (
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    str(Path(__file__).parent),
    "<frozen",
)
"""How the names of files begin that no suite's author has written."""

BUILTINS: dict[str, Any] = {}
"""Replacements of builtins for suite files loaded from now on.

Workers put an `__import__` here that knows of missing frameworks, for a suite may import at any time.
"""

F = TypeVar("F", bound=Callable[..., Any])


def tokens(
    high: int = 2048, *, low: int = 1, grows: bool = True, long: int | None = None, realistic: int | None = None
) -> Dim:
    """Return the range of a number of rows, usually batch times sequence length: `low` to `high`.

    If it `grows`, long and oversized cases exceed `high`.  A long case has up to millions of rows, an oversized one a
    tensor of more than 2^31 elements.  `long` sets another limit for long cases; 0 excludes them.  With `low=0` the
    library accepts tensors without rows.  Some cases on a hardware GPU have up to `realistic` rows, as models do.
    """
    return Dim(low=low, high=high, varies=True, grows=grows, long=long, realistic=realistic)


def width(high: int = 1024, *, low: int = 1, realistic: int | None = None) -> Dim:
    """Return the range of a feature size: `low` to `high`, and up to `realistic` in some cases on a hardware GPU."""
    return Dim(low=low, high=high, realistic=realistic)


def groups(*choices: int, grows: bool = False) -> Dim:
    """Return the range of a number of groups or heads: one of `choices`, by default 1, 2 and 4.

    Failures shrink towards the first choice.  If it `grows`, any larger number is legal, too: long and oversized cases
    have some.
    """
    choices = choices or (1, 2, 4)
    return Dim(low=min(choices), high=max(choices), choices=choices, grows=grows)


class InputSettings(TypedDict, total=False):
    """What every kind of input may say, for type checkers."""

    optional: bool
    """The library accepts None for it."""
    contiguous: Contiguity
    """True if the library demands a contiguous tensor, `"rows"` if it demands contiguous rows."""


class ShapedSettings(InputSettings, total=False):
    """What every kind of input with a declared shape may say, for type checkers."""

    broadcasts: tuple[Extent, ...]
    """Extents of axes that may have one element instead."""


class TensorSettings(ShapedSettings, total=False):
    """The optional arguments of `tensor`, for type checkers."""

    grad: bool
    dtype: DType | None
    draw: Draw
    distinct: bool
    ascending: bool
    defined: Callable[..., Any] | None


class IntegerSettings(ShapedSettings, total=False):
    """The optional arguments of `integers`, for type checkers."""

    ignore: Extent | None
    distinct: Distinct
    ascending: bool
    dtype: Integer


class SegmentSettings(InputSettings, total=False):
    """The optional arguments of `segments`, for type checkers."""

    may_be_empty: bool
    tail: bool
    dtype: Integer


def tensor(*shape: Extent, **more: Unpack[TensorSettings]) -> Tensor:
    """Declare a tensor of floating-point numbers: `tensor("T", "G*D")`.

    Args:
        shape: the extent of each axis: a number, or integer arithmetic with +, -, * and // over dims.
        more: `optional` if the library accepts None for it;
            `grad`, by default true: its gradient is compared with the reference's;
            `dtype`, a fixed element type, by default the case's;
            `draw`, how its elements follow from normally distributed numbers, for example `Draw.UNIT` for [0, 1];
            `ascending` if each row, along the last axis, is sorted, as edges of bins are;
            `distinct` if the numbers of a row differ from each other;
            `contiguous`, true if the library demands a contiguous tensor, `"rows"` if it demands contiguous rows;
            `broadcasts`, the extents of axes that may have one element instead, as torch broadcasts it:
            `tensor("B", "H", "T", "T", broadcasts=("B", "H"))` for an attention mask;
            `defined`, a function of inputs, dims and options by name that returns the mask of the cells that the
            library may read.  The other cells hold NaN, and the definition gets zeros there.
    """
    return Tensor(shape=shape, **more)


def integers(*shape: Extent, low: Extent = 0, high: Extent, **more: Unpack[IntegerSettings]) -> Integers:
    """Declare a tensor of integers, `low <= x < high`: `integers("T", high="V", ignore=-100)` for a loss's labels.

    Args:
        shape: the extent of each axis, as for `tensor`.
        low: the smallest integer, inclusive; a number or arithmetic over dims.
        high: the limit, exclusive; a number or arithmetic over dims.
        more: `ignore`, a value outside that range that no, some or all elements have: a loss's `ignore_index`, or the
            pad of slots and pages, -1 or their number;
            `distinct`, true if all of them differ, as slots and pages do, `"rows"` if those of a row differ, as the
            experts of a token do;
            `ascending` if each row, along the last axis, is sorted;
            `dtype`, the element type, by default `"int64"`;
            `optional`, `contiguous` and `broadcasts` as for `tensor`.
    """
    return Integers(shape=shape, low=low, high=high, **more)


def segments(total: Extent, count: Extent, **more: Unpack[SegmentSettings]) -> Segments:
    """Declare cumulative lengths of packed sequences: `segments("T", "N")` for `cu_seqlens`, N sequences of T tokens.

    The tensor has shape `(N + 1,)` and rises from 0 to T.

    Args:
        total: the number of tokens of all sequences together.
        count: the number of sequences; there are fewer if `total` is smaller.
        more: `may_be_empty` if the library accepts sequences of length 0;
            `tail` if it accepts tokens after the last sequence: the last boundary may be less than `total`;
            `dtype`, `optional` and `contiguous` as for `integers`.
    """
    return Segments(total=total, count=count, **more)


def sizes(
    count: Extent, total: Extent, *, surplus: bool = False, dtype: Integer = "int64", **more: Unpack[InputSettings]
) -> Sizes:
    """Declare the sizes of groups that share a total: `sizes("E", "T")` for the tokens of each of E experts.

    Any group may be empty, and one group may have all.

    Args:
        count: the number of groups.
        total: the sum of the sizes.
        surplus: the library accepts a smaller sum: the last elements belong to no group.
        dtype: the element type.
        more: `optional` and `contiguous` as for `tensor`.
    """
    return Sizes(count=count, total=total, surplus=surplus, dtype=dtype, **more)


def built(*shape: Extent, by: Callable[..., Any], dtype: DType | Integer, **more: Unpack[ShapedSettings]) -> Built:
    """Declare a tensor that a function makes, for what the other kinds cannot say.

    The function takes by name inputs that are declared before it, dims and options, and `generator`, a
    `torch.Generator` that follows from the case's seed.  Every random number must come from it:

        def positions(lengths, generator):
            return (torch.rand(len(lengths), generator=generator) * lengths).long()

    Args:
        shape: the extent of each axis, as for `tensor`.
        by: the function, which imports torch inside: `built("B", by=positions, dtype="int64")`.
        dtype: the element type of what it returns.
        more: `optional`, `contiguous` and `broadcasts` as for `tensor`.
    """
    return Built(shape=shape, by=by, dtype=dtype, **more)


def config_tables(
    *names: str, nearest: str = "", devices: Mapping[str, str] | None = None, answer: Callable[..., Any] | None = None
) -> HostConfigs:
    """Declare JSON files that list configs, among which a function of the library's host code picks one.

    `{"my_library.choice:get_configs": config_tables("configs/N={N},device_name={device}.json", nearest="T")}` is the
    `host_configs` of an op.

    Args:
        names: names of the files, relative to the folder of the function's module: `{E}` stands for the size of the dim
            E or the value of the option E, `{device}` for the name of the GPU, `*` for any text.
        nearest: the dim, or arithmetic over dims, that the library compares with the numbers under which a file lists
            its configs; it picks the nearest.  Without it a file is one config, or a list of configs.
        devices: slugs of similar devices by the names that files give to GPUs: `{"NVIDIA_H20": "h200"}`.
        answer: a function that returns what the library's returns, from a config and the arguments of the call.  By
            default that is a dict with the config under its number, or the config if `nearest` is left out.
    """
    return HostConfigs(tables=names, nearest=nearest, devices=devices or {}, answer=answer)


def listed_configs(
    *configs: Any, by_device: Mapping[str, tuple[Any, ...]] | None = None, answer: Callable[..., Any] | None = None
) -> HostConfigs:
    """Declare the configs among which a function of the library's host code picks one, where no JSON file lists them.

    Args:
        configs: JSON values, such as dicts of tile sizes.
        by_device: more configs by the slug of a device.
        answer: a function that returns what the library's returns, from a config and the arguments of the call; by
            default that is the config.
    """
    return HostConfigs(configs=configs, by_device=by_device or {}, answer=answer)


def beside(suite: str, module: str) -> ModuleType:
    """Load a Python file relative to the suite file, once for each process: `beside(__file__, "kernels/sum.py")`.

    Call it inside an op's function.  The loaded file may import Triton at its top, which a suite file must not.

    Raises:
        SuiteError: there is no such file, or it fails on import.
    """
    path = Path(suite).resolve().parent / module
    name = _module_name(path)
    if name not in sys.modules:
        if not path.is_file():
            raise SuiteError(f"{suite} asks for {module!r}, which does not lie beside it")
        sys.modules[name] = _import_file(path, str(path))
    return sys.modules[name]


def compiled(
    program: Callable[..., Any], *, mode: str | None = None, dynamic: bool | None = None
) -> Callable[..., Any]:
    """Return a function that compiles torch code by `torch.compile` with Inductor, and calls it.

    On the virtual GPU Inductor compiles for the emulated device.  Its kernels, forward and backward, are launched
    there.  Each case compiles anew.  `op(compiled=True)` does this to the op's function.

    Args:
        program: a function of tensors and of other values.  On the virtual GPU its tensors name the CPU as device.
        mode: as of `torch.compile`, such as `max-autotune`.
        dynamic: as of `torch.compile`; True generates code for all sizes.
    """

    @functools.wraps(program)
    def call(*args: Any, **kwargs: Any) -> Any:
        from harness.engines.torch.inductor.compiled_calls import call_compiled  # noqa: PLC0415 - it imports Inductor

        return call_compiled(program, {"mode": mode, "dynamic": dynamic}, args, kwargs)

    return call


def jax_call(
    function: Callable[..., Any], *tensors: Any, tuned_while: str = "execution", aliases: str = "buffers"
) -> Any:
    """Call a JAX function on torch tensors, inside an op's function; return its results as torch tensors.

    The function takes and returns arrays, or tuples of arrays.  `jax.jit` compiles it, and kernels that it calls with
    `jax_triton.triton_call` run on the virtual GPU; other operations run on the CPU.  Gradients come from `jax.vjp`.
    Tensors are copied, and 64-bit numbers become 32-bit ones unless JAX's `jax_enable_x64` is set.

    How jaxlib launches and tunes kernels is modelled, and every finding says so.

    Args:
        function: a function of JAX, without side effects.
        tensors: its arguments.
        tuned_while: `"execution"` tunes while the executable runs, as the call target of jax-triton 0.3.1 does;
            `"initialisation"` tunes before it runs, as jaxlib's FFI target does: then a kernel's inputs that an
            operation of the executable produces hold garbage.
        aliases: which aliased inputs tuning restores: `"buffers"` reads both indices as jaxlib does, `"outputs"` reads
            the second one as an index of outputs, `"none"` restores none.

    Raises:
        SuiteError: a setting is unknown.
        MissingPart: JAX is missing, or of another release than those of `kernel-harness[jax]`.
        CannotExecute: the engine is not the virtual GPU.
    """
    calls = importlib.import_module("harness.engines.jax.calls")  # a worker's part of the harness, which needs torch
    return calls.call(function, tensors, tuned_while=tuned_while, aliases=aliases)


def ragged(lengths: Any, size: int) -> Any:
    """Return the mask of the first `lengths` of `size` places: a new last axis behind those of `lengths`.

    For `defined` and for definitions: `ragged(lengths, T)` are the real tokens of each sequence of a padded batch.
    """
    parts = importlib.import_module("harness.execution.definition_parts")  # it needs torch
    return parts.ragged(lengths, size)


def owned(table: Any, lengths: Any, pages: int, size: int) -> Any:
    """Return the mask, of shape `(pages, size)`, of the cells that hold a token of a request.

    For `defined` of a cache in pages, as the other cells must not be read:
    `defined=lambda table, lengths, P, S: owned(table, lengths, P, S)[..., None, None]`.

    Args:
        table: the pages of each request, of shape `(B, W)`; requests may share pages, and pads may follow.
        lengths: the tokens of each request.
        pages: the number of pages.
        size: the tokens of a page.
    """
    parts = importlib.import_module("harness.execution.definition_parts")  # it needs torch
    return parts.owned(table, lengths, pages, size)


def segment_ids(bounds: Any, size: int) -> Any:
    """Return for each of `size` tokens the index of its packed sequence, by `segments`, and -1 for a tail."""
    parts = importlib.import_module("harness.execution.definition_parts")  # it needs torch
    return parts.segment_ids(bounds, size)


def attention(  # noqa: PLR0913 - keywords of a definition
    q: Any, k: Any, v: Any, *, scale: float | None = None, allowed: Any = None, logit_cap: float = 0.0
) -> tuple[Any, Any]:
    """Return softmax attention inside a definition, and the logarithms of its sums of exponentials.

    Args:
        q: queries of shape `(..., Q, H, D)`.
        k: keys of shape `(..., K, G, D)`; heads of queries share the G heads of keys in equal parts.
        v: values of shape `(..., K, G, V)`.  The first result has shape `(..., Q, H, V)`, the second one `(..., Q, H)`.
        scale: the factor of products, by default the inverse of the root of D.
        allowed: the mask of the keys of each query, which broadcasts to `(..., H, Q, K)`; None for all.  A query
            without a key gets zeros, and minus infinity as logarithm.
        logit_cap: if not zero, the largest product, by `logit_cap * tanh(product / logit_cap)`.
    """
    parts = importlib.import_module("harness.execution.definition_parts")  # it needs torch
    return parts.attention(q, k, v, scale=scale, allowed=allowed, logit_cap=logit_cap)


def dequantised(
    stored: Any,
    scale: Any,
    *,
    packed: str | None = None,
    group: int | tuple[int, int] | None = None,
    zero: Any = None,
) -> Any:
    """Return the numbers that a quantised tensor stands for, `(stored - zero) * scale`, inside a definition.

    Args:
        stored: integers, or numbers of eight bits.
        scale: one number, one for each row (with a last axis of 1), or one for each group; bytes (`uint8`) are the
            exponents of powers of two, as in MX formats: 0 is 2^-127, and 255 is NaN.
        packed: `"int4"`, `"uint4"` or `"fp4"` if each byte holds two numbers along the last axis, the first one in its
            low bits.
        group: how many neighbours along the last axis share a scale, or the rows and columns of the blocks that do;
            None if the scale broadcasts.
        zero: the zero point of each scale.
    """
    quantised = importlib.import_module("harness.execution.quantised")  # a worker's part of the harness: needs torch
    return quantised.dequantised(stored, scale, packed=packed, group=group, zero=zero)


def drawn_from(drawn: Any, probabilities: Any) -> Any:
    """Return drawn indices as a definition does: those that the probabilities explain, and -1 for others.

    Indices of probability zero are never explained.  If all indices together are implausible, none is: a right sampler
    gets that verdict in less than one of a hundred million cases.

    Args:
        drawn: what the library drew, integers of any shape.  The definition takes it by the name of the result.
        probabilities: for each of them the shares of all indices along the last axis, not necessarily normalised.
    """
    random_results = importlib.import_module("harness.execution.random_results")  # needs torch
    return random_results.drawn_from(drawn, probabilities)


class Declaration:
    """An op as its suite file declares it.

    Without a reference its results are compared with nothing, and a search says so.
    """

    def __init__(self, name: str, call: Callable[..., Any], options: Mapping[str, Any]) -> None:
        self.name = name
        self._call = call
        self._options = options
        self._reference: Callable[..., Any] | None = None

    def reference(self, function: F) -> F:
        """Decorate the op's reference: its definition in differentiable torch, for any floating-point type.

        It takes inputs, dims and options by name.  It may also take results of the library, as `y`, or as `y0` and `y1`
        if there are several: a random mask that the library returns, for example.
        """
        self._reference = function
        return function

    def complete(self, suite: str, portable_name: str = "") -> Op:
        """Return the op of the suite of this name; draws depend on `portable_name`, by default the same.

        Raises:
            SuiteError: the declaration contradicts itself.  Later, `where` of the returned op raises it if the suite's
                function fails.
        """
        place = f"{suite}: op {self.name!r}"
        options = dict(self._options)
        is_compiled = options.pop("compiled", False)
        reference = self._reference or (self._call if is_compiled else _undefined)
        if mistake := next(_mistakes(options), ""):
            raise SuiteError(f"{place} {mistake}")
        call = compiled(self._call) if is_compiled else self._call
        declared = Op(
            name=self.name, suite=suite, portable_name=portable_name, call=call, reference=reference, **options
        )
        if declared.where is None:
            return declared
        where = _blaming_suite(declared.where, place)
        simplest = {name: dim.simplest for name, dim in declared.dims.items()}
        gradients = tuple(name for name, declaration in declared.inputs.items() if declaration.grad)
        optional = dict.fromkeys(declared.optional, True)
        where({GRADIENTS: gradients, **declared.simplest_options, **simplest, **optional})
        return dataclasses.replace(declared, where=where)


def _undefined(**_: object) -> None:
    """The definition of an op that has none.

    Raises:
        NotImplementedError: as drafts raise it.
    """
    raise NotImplementedError


def _mistakes(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield the mistakes in the arguments of `op`, as the ends of sentences that begin with the op.

    Only the first one counts: later checks assume that the earlier ones passed.
    """
    for name in arguments:
        if name not in ARGUMENTS:
            yield f"has an {unknown('argument', name, ARGUMENTS)}"
    for name in BY_NAME:
        if not isinstance(arguments.get(name, {}), Mapping):
            yield f"has {name}={arguments[name]!r}: write a dict, by name"
    for name in SEVERAL:
        if isinstance(arguments.get(name), str):
            yield f"has {name}={arguments[name]!r}: write {name}=({arguments[name]!r},)"
    yield from _mistakes_of_requires(arguments.get("requires", ()))
    yield from _mistakes_of_values(arguments.get("options", {}), arguments.get("environment", {}))
    if arguments.get("contiguous", False) not in CONTIGUITIES:
        yield f"has contiguous={arguments['contiguous']!r}: write True or 'rows'"
    yield from _mistakes_of_dims(arguments["dims"])
    yield from _mistakes_of_inputs(arguments["inputs"], arguments["dims"])
    yield from _mistakes_of_host_configs(arguments)
    if undeclared := sorted(set(arguments.get("apart", ())) - set(arguments["dims"])):
        yield f"keeps undeclared dims apart: {', '.join(undeclared)}"
    yield from _mistakes_of_rows(arguments)


def _mistakes_of_rows(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Check that the rows can be cut out of each input: along axes of the dim alone."""
    inputs: Mapping[str, Input] = arguments["inputs"]
    for dim in arguments.get("independent", ()):
        if dim not in arguments["dims"]:
            yield f"has independent rows of an {unknown('dim', dim, arguments['dims'])}"
        yield from _uncut("independent", dim, inputs.items())
    if not (name := arguments.get("sequences", "")):
        return
    bounds = inputs.get(name)
    if not isinstance(bounds, Segments):
        yield f"has sequences={name!r}: write the name of a segments(…) input"
        return
    for dim in (bounds.total, bounds.count):
        if dim not in arguments["dims"]:
            yield f"has sequences={name!r}, whose tokens and count must each be a dim, not {dim!r}"
        others = tuple((other, kind) for other, kind in inputs.items() if other != name)
        yield from _uncut("sequences", str(dim), others, may_be_absent=dim == bounds.count)


def _uncut(
    argument: str, dim: str, inputs: Iterable[tuple[str, Input]], *, may_be_absent: bool = False
) -> Iterator[str]:
    """Yield what keeps the rows of a dim from being cut out of inputs, among them that none has an axis of it."""
    is_carried = may_be_absent
    for name, declaration in inputs:
        axes = tuple(declaration.shape) if isinstance(declaration, Shaped) else ()
        is_carried |= dim in axes
        alone = all(dim not in Tensor(shape=(extent,)).named for extent in axes if extent != dim)
        if dim in declaration.named - (declaration.dims_of_shape if isinstance(declaration, Shaped) else set()):
            yield f"has {argument} rows of {dim}, which bounds the values of {name}: they cannot be cut out"
        elif not alone:
            yield f"has {argument} rows of {dim}, which {name} combines with other dims on one axis"
    if not is_carried:
        yield f"has {argument} rows of {dim}, of which no input has an axis"


def _mistakes_of_values(options: Mapping[str, Any], environment: Mapping[str, Any]) -> Iterator[str]:
    for name, values in options.items():
        if not isinstance(values, tuple | list) or not values:
            yield f"has the option {name}={values!r}: give a tuple of the values worth trying, as (False, True)"
    for name, values in environment.items():
        if not isinstance(values, tuple | list) or not all(isinstance(value, str) for value in values) or not values:
            yield f"has the environment variable {name}={values!r}: give a tuple of texts worth trying, as ('1',)"


def _mistakes_of_requires(requires: tuple[Any, ...]) -> Iterator[str]:
    named = (
        name for requirement in requires for name in (requirement if isinstance(requirement, tuple) else (requirement,))
    )
    if not all(isinstance(name, str) for name in named):
        yield f"has requires={requires!r}: write names of distributions, or tuples of alternative names"


def _mistakes_of_dims(dims: Mapping[str, Any]) -> Iterator[str]:
    for name, dim in dims.items():
        if not isinstance(dim, Dim):
            yield f"has the dim {name}={dim!r}: write Dim(low=…, high=…), tokens(…), width(…) or groups(…)"
        elif dim.low > dim.high:
            yield f"has the dim {name} with low={dim.low} above high={dim.high}"
        else:
            for choice in dim.choices:
                if not dim.low <= choice <= dim.high:
                    yield f"has the dim {name} with the choice {choice} outside {dim.low} to {dim.high}"


def _mistakes_of_inputs(inputs: Mapping[str, Any], dims: Mapping[str, Dim]) -> Iterator[str]:
    for name, declaration in inputs.items():
        match declaration:
            case Tensor(shape=extents) | Built(shape=extents):
                pass
            case Integers():
                ignored = () if declaration.ignore is None else (declaration.ignore,)
                extents = (*declaration.shape, declaration.low, declaration.high, *ignored)
            case Segments() | Sizes():
                extents = (declaration.total, declaration.count)
            case _:
                kinds = "tensor(…), integers(…), segments(…), sizes(…) or built(…)"
                yield f"has the input {name}={declaration!r}: write {kinds}"
                continue
        if isinstance(declaration, Shaped):
            yield from _mistakes_of_broadcasts(name, declaration)
        if declaration.contiguous not in CONTIGUITIES:
            yield f"has the input {name} with contiguous={declaration.contiguous!r}: write True or 'rows'"
        for extent in extents:
            for wrong in _mistakes_of_extent(extent, dims):
                yield f"has an extent of {name} {wrong}"


def _mistakes_of_broadcasts(name: str, declaration: Shaped) -> Iterator[str]:
    if isinstance(declaration.broadcasts, str):
        yield f"has the input {name} with broadcasts={declaration.broadcasts!r}: write ({declaration.broadcasts!r},)"
    elif missing := [extent for extent in declaration.broadcasts if extent not in declaration.shape]:
        yield f"has the input {name} with broadcasts={missing[0]!r}, which is no extent of its shape"
    if declaration.broadcasts and isinstance(declaration, Tensor) and declaration.defined is not None:
        yield f"has the input {name} with `broadcasts` and `defined`: only one of them is possible"


def _mistakes_of_host_configs(arguments: Mapping[str, Any]) -> Iterator[str]:
    names = {*arguments["dims"], *arguments.get("options", {}), DEVICE}
    for function, declared in arguments.get("host_configs", {}).items():
        if not all(map(str.isidentifier, function.replace(".", ":").split(":"))) or function.count(":") != 1:
            yield f"has the function {function!r} in host_configs: write its module and name, as 'package.module:name'"
        if not isinstance(declared, HostConfigs):
            yield f"has host_configs of {function}={declared!r}: write config_tables(…) or listed_configs(…)"
            continue
        for name in (field for table in declared.tables for field in re.findall(r"\{(\w+)\}", table)):
            if name not in names:
                yield f"has tables of {function} with an {unknown('dim or option', name, names)}"
        if getattr(declared.answer, "__name__", "") == "<lambda>":
            yield f"has a lambda as answer of {function}: write a function with a name, which reproducers contain"
        if declared.nearest:
            for wrong in _mistakes_of_extent(declared.nearest, arguments["dims"]):
                yield f"has nearest={declared.nearest!r} of {function} {wrong}"


def _mistakes_of_extent(extent: Extent, dims: Mapping[str, Dim]) -> Iterator[str]:
    """Check the extent at the smallest and at the largest sizes.  Cases report mistakes at other sizes."""
    for end in ("low", "high"):
        sizes: dict[str, int] = {name: getattr(dim, end) for name, dim in dims.items()}
        try:
            extent_of(extent, sizes)
        except KeyError as error:
            yield f"with an {unknown('dim', error.args[0], dims)}"
        except ZeroDivisionError:
            yield f"that divides by 0 at {_assignments(sizes)}: {extent}"
        except (SyntaxError, TypeError, ValueError):
            yield f"that is no arithmetic with +, -, * and // over dims: {extent!r}"


def _blaming_suite(where: Callable[[Mapping[str, Any]], bool], place: str) -> Callable[[Mapping[str, Any]], bool]:
    """Return the predicate; every exception of it becomes a SuiteError with the op and the sizes."""

    def is_legal(at: Mapping[str, Any]) -> bool:
        try:
            return where(at)
        except Exception as error:  # the suite's code may raise anything
            match error:
                case KeyError(args=(str(name),)) if name not in at:
                    wrong = f"asks in `where` for an {unknown('name', name, at)}"
                case _:
                    wrong = f"fails in `where` at {_assignments(at)}: {_exception_text(error)}"
            raise SuiteError(f"{place} {wrong}") from error

    return is_legal


def _assignments(sizes: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sizes.items() if name != GRADIENTS)


def _exception_text(error: BaseException) -> str:
    """Return class and text, as in a traceback; only the class if there is no text."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def op(
    *, dims: Mapping[str, Dim], inputs: Mapping[str, Input], **more: Unpack[OpSettings]
) -> Callable[[Callable[..., Any]], Declaration]:
    """Decorate a function that calls the library under test; its name becomes the op's name.

    The function takes inputs by name, and dims and options if it has parameters of these names.  It returns a tensor or
    a tuple of tensors, None among them where the library returns None.

    Args:
        dims: the range of each size by name, for example `{"T": tokens(), "D": width()}`.
        inputs: what the function takes, by name: `tensor(…)`, `integers(…)`, `segments(…)`, `sizes(…)`, `built(…)`.
        more: `compiled`, and other fields of `harness.model.op.Op`: `options`, `environment`, `host_configs`,
            `dtypes`, `where`, `refuses`, `requires`, `stubs`, `waives`, `apart`, `independent`, `sequences`, `buckets`,
            `slack`, `threads`, `graphs`, `launches`, `forks`, `contiguous`, `defined`.
    """

    def declare(call: Callable[..., Any]) -> Declaration:
        return Declaration(call.__name__, call, {"dims": dims, "inputs": inputs, **more})

    return declare


def load_suite(file: str, project: Path = Path()) -> tuple[Op, ...]:
    """Return the ops that a suite file declares, in the file's order; `file` becomes the suite's name.

    A relative name is that of a file in the folder `project`.

    Raises:
        SuiteError: the file does not exist, fails on import, imports Triton or torch at its top, or declares no op.
    """
    path = located(file, project)
    if not path.is_file():
        raise SuiteError(
            f"no suite file {file!r}: a suite is a Python file that declares ops, such as suites/fla/norm.py"
        )
    if _is_test(path):  # pytest may have put these there, for helpers beside the tests
        folders = (str(folder.resolve()) for folder in (path.parent, project))
        sys.path += [folder for folder in dict.fromkeys(folders) if folder not in sys.path]
    before = {name for name in FORBIDDEN_AT_TOP if name in sys.modules}
    module = _import_file(path, file)
    for name in FORBIDDEN_AT_TOP:
        if name in sys.modules and name not in before and not _is_test(path):
            raise SuiteError(f"{file} imports {name} at its top: import it inside the functions that use it")
    declared = list({id(value): value for value in vars(module).values() if isinstance(value, Declaration)}.values())
    if not declared:
        raise SuiteError(f"{file} declares no op: decorate a function with @harness.suite.op(...)")
    return tuple(declaration.complete(file, portable_name(path)) for declaration in declared)


def _is_test(path: Path) -> bool:
    """Return True for a file of ordinary tests, which may import anything: pytest has imported it, too."""
    return path.name.startswith("test_") or path.stem.endswith("_test")


def _module_name(path: Path) -> str:
    """Return a name that is unique for each file: one process may load two checkouts of a suite."""
    whole = path.resolve()
    readable = "_".join(whole.with_suffix("").parts[-3:]).replace("-", "_").replace(".", "_")
    return f"{MODULE_PREFIX}{readable}_{hashlib.sha256(os.fsencode(whole)).hexdigest()[:8]}"


def _import_file(path: Path, name: str) -> ModuleType:
    """Import the file; errors call it by this name."""
    spec = importlib.util.spec_from_file_location(_module_name(path), path)
    if spec is None or spec.loader is None:
        raise SuiteError(f"{name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    if BUILTINS:
        vars(module)["__builtins__"] = vars(builtins) | BUILTINS
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a suite may also call pytest.skip or sys.exit, which are no Exceptions
        raise SuiteError(_import_failure(error, path, name)) from error
    return module


def _import_failure(error: BaseException, path: Path, name: str) -> str:
    """Return the message for a suite that cannot be imported: its line and, if it failed elsewhere, that place."""
    if isinstance(error, SyntaxError):
        places = [(error.filename or str(path), error.lineno or 1)]
    else:
        frames = traceback.extract_tb(error.__traceback__)
        places = [(frame.filename, frame.lineno or 1) for frame in frames if not frame.filename.startswith(INSTALLED)]
    own = [number for file, number in places if file == str(path)]
    line = f":{own[-1]}" if own else ""
    elsewhere = f" (at {places[-1][0]}:{places[-1][1]})" if places and places[-1][0] != str(path) else ""
    # The text of a SyntaxError ends with the base name of the file and the line, which this message already has.
    text = f"{type(error).__name__}: {error.msg}" if isinstance(error, SyntaxError) else _exception_text(error)
    return f"{name}{line} fails on import: {text}{elsewhere}"
