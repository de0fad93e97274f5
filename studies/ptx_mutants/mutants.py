"""Makes mutants of PTX text, runs them, and says which the PTX machine notices."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import triton
from numpy.typing import NDArray
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from harness.engines.ptx.launch import PtxLaunch, pack_parameters
from harness.engines.ptx.memories import Flaws, GlobalMemory, GlobalWatch
from harness.engines.ptx.ptx_builds import PtxBuild
from harness.engines.ptx.ptx_kernel import PtxInstruction
from harness.engines.ptx.ptx_text import parse
from harness.engines.ptx.threads import LaunchShape
from harness.engines.ptx.wave_runner import PreparedKernel
from harness.errors import CannotExecute
from studies.ptx_mutants import kernels

Array = NDArray[Any]
STEP_LIMIT = 20_000
TOLERANCE = 1e-2


@dataclass(frozen=True, kw_only=True)
class MutatedKernel:
    """One kernel for one architecture."""

    name: str
    arch: int
    grid: tuple[int, int, int]
    signature: dict[str, str]
    constants: dict[str, int]
    arguments: Callable[[], list[Any]]
    """Makes arrays and numbers; the last array is the result."""
    definition: Callable[[list[Any]], Array]

    @cached_property
    def build(self) -> PtxBuild:
        fn: Any = getattr(kernels, f"{self.name}_kernel")
        names = fn.arg_names
        source = ASTSource(
            fn,
            {**self.signature, **dict.fromkeys(self.constants, "constexpr")},
            {(names.index(name),): value for name, value in self.constants.items()},
            {(names.index(name),): [["tt.divisibility", 16]] for name in self.signature},
        )
        compiled: Any = triton.compile(
            source, target=GPUTarget("cuda", self.arch, 32), options={"num_warps": 4, "num_stages": 3}
        )
        return PtxBuild(
            text=compiled.asm["ptx"],
            shared_bytes=compiled.metadata.shared,
            scratch_bytes=0,
            num_ctas=1,
            tensor_maps=(),
        )

    def run(self, text: str) -> "Result":
        """Run a text in the place of the kernel's PTX."""
        arguments, memory, flaws, watch = self.arguments(), GlobalMemory(), Flaws(), _Strays()
        values = [
            memory.add("", one.reshape(-1).view(np.uint8)).address if isinstance(one, np.ndarray) else one
            for one in arguments
        ]
        try:
            kernel = parse(text)
            stuck = PtxLaunch(
                prepared=PreparedKernel(kernel),
                shape=LaunchShape(grid=self.grid, threads=kernel.threads),
                memory=memory,
                parameters=pack_parameters(kernel, values),
                shared_bytes=self.build.shared_bytes,
                watch=watch,
                flaws=flaws,
                step_limit=STEP_LIMIT,
            ).run()
        except CannotExecute as error:
            return Result(noticed=f"cannot execute: {error}")
        if stuck is not None:
            return Result(noticed="threads wait for ever")
        if watch.count:
            return Result(noticed="a stray access")
        kinds = {flaw.kind for flaw in flaws.seen.values()}
        result = next(one for one in reversed(arguments) if isinstance(one, np.ndarray))
        expected = self.definition(self.arguments())
        if not np.allclose(result, expected, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
            return Result(noticed="values", kinds=kinds)
        return Result(noticed="", kinds=kinds)


class _Strays(GlobalWatch):
    def __init__(self) -> None:
        self.count = 0

    def stray(self, instruction: PtxInstruction, addresses: Array, programs: Array, size_bytes: int) -> None:
        del instruction, programs, size_bytes
        self.count += len(addresses)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a run shows."""

    noticed: str
    """Why it is wrong; empty if its values are right."""
    kinds: set[str] | None = None
    """The kinds of flaws of compiled code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change of a text."""

    change: str
    line: str
    text: str


RULES: dict[str, tuple[str, Callable[[re.Match[str]], str]]] = {
    "barrier removed": (r"^\s*bar\.sync\s+0;", lambda _: ""),
    "wait removed": (r"^\s*(?:cp\.async|wgmma)\.wait_group[^;]*;", lambda _: ""),
    "wait count raised": (
        r"(wait_group(?:\.sync\.aligned)?)\s+(\d+);",
        lambda found: f"{found[1]} {int(found[2]) + 1};",
    ),
    "fragments swapped": (
        r"(mma\.sync[^{]*\{[^}]*\}, \{ )(%r\d+), (%r\d+)",
        lambda found: f"{found[1]}{found[3]}, {found[2]}",
    ),
    "operand transposed": (
        r"ldmatrix(.*?)(\.trans)?\.shared",
        lambda found: f"ldmatrix{found[1]}{'' if found[2] else '.trans'}.shared",
    ),
    "shared address moved": (
        r"((?:ld|st)\.shared[^;\[]*\[)(%r\d+)(\])",
        lambda found: f"{found[1]}{found[2]}+4{found[3]}",
    ),
}
"""By name of the change, what is replaced and by what."""


def mutants(text: str, most_each: int) -> Iterator[Mutant]:
    """Yield the mutants of a text, at most so many of each kind, spread over the text."""
    body = text.index(".entry")
    for change, (pattern, replacement) in RULES.items():
        found = [match for match in re.finditer(pattern, text, re.MULTILINE) if match.start() > body]
        step = max(1, len(found) // most_each)
        for match in found[::step][:most_each]:
            changed = text[: match.start()] + replacement(match) + text[match.end() :]
            yield Mutant(change=change, line=match[0].strip()[:90], text=changed)


def normal(seed: int, shape: tuple[int, ...], dtype: type[Any]) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _softmax(arguments: list[Any]) -> Array:
    x = arguments[0].astype(np.float64)
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def _of(arch: int) -> Iterator[MutatedKernel]:
    rows, columns = 8, 992
    row = {"x": "*fp32", "y": "*fp32", "n": "i32"}

    def vectors() -> list[Any]:
        return [normal(1, (rows, columns), np.float32), np.zeros((rows, columns), np.float32), columns]

    for name, definition in (("softmax", _softmax), ("scan", lambda given: np.cumsum(given[0].astype(np.float64), 1))):
        yield MutatedKernel(
            name=name,
            arch=arch,
            grid=(rows, 1, 1),
            signature=row,
            constants={"BLOCK": 1024},
            arguments=vectors,
            definition=definition,
        )
    yield MutatedKernel(
        name="column_sum",
        arch=arch,
        grid=(4, 1, 1),
        signature={"x": "*fp32", "y": "*fp32", "n": "i32", "m": "i32"},
        constants={"BN": 128, "BM": 32},
        arguments=lambda: [normal(5, (112, 128), np.float32), np.zeros(128, np.float32), 112, 128],
        definition=lambda given: given[0].sum(0, dtype=np.float64),
    )
    yield MutatedKernel(
        name="row_order",
        arch=arch,
        grid=(4, 1, 1),
        signature={"x": "*fp32", "y": "*fp32"},
        constants={"BLOCK": 512},
        arguments=lambda: [normal(6, (4, 512), np.float32), np.zeros((4, 512), np.float32)],
        definition=lambda given: np.sort(given[0], axis=1),
    )
    yield MutatedKernel(
        name="histogram",
        arch=arch,
        grid=(4, 1, 1),
        signature={"x": "*i32", "y": "*i32"},
        constants={"BLOCK": 512, "BINS": 64},
        arguments=lambda: [np.random.default_rng(7).integers(0, 64, (4, 512), np.int32), np.zeros((4, 64), np.int32)],
        definition=lambda given: np.stack([np.bincount(row, minlength=64) for row in given[0]]),
    )
    yield MutatedKernel(
        name="transpose",
        arch=arch,
        grid=(2, 2, 1),
        signature={"x": "*fp32", "y": "*fp32", "n": "i32", "m": "i32"},
        constants={"BN": 64, "BM": 64},
        arguments=lambda: [normal(2, (96, 112), np.float32), np.zeros((112, 96), np.float32), 96, 112],
        definition=lambda given: given[0].T,
    )
    yield from _products(arch)


def _products(arch: int) -> Iterator[MutatedKernel]:
    yield MutatedKernel(
        name="chained",
        arch=arch,
        grid=(2, 1, 1),
        signature={"a": "*fp16", "b": "*fp16", "c": "*fp32"},
        constants={"BM": 64, "K": 64},
        arguments=lambda: [
            normal(8, (128, 64), np.float16),
            normal(9, (64, 64), np.float16),
            np.zeros((128, 64), np.float32),
        ],
        definition=lambda given: (
            (given[0].astype(np.float64) @ given[1]).astype(np.float16).astype(np.float64) @ given[1]
        ),
    )
    yield MutatedKernel(
        name="matmul",
        arch=arch,
        grid=(2, 2, 1),
        signature={"a": "*fp16", "b": "*fp16", "c": "*fp32", "M": "i32", "N": "i32", "K": "i32"},
        constants={"BM": 64, "BN": 64, "BK": 32},
        arguments=lambda: [
            normal(3, (112, 256), np.float16),
            normal(4, (256, 96), np.float16),
            np.zeros((112, 96), np.float32),
            112,
            96,
            256,
        ],
        definition=lambda given: given[0].astype(np.float64) @ given[1],
    )


def all_kernels() -> Iterator[MutatedKernel]:
    """Yield every kernel for architectures with `mma` and with `wgmma`."""
    for arch in (80, 90, 120):
        yield from _of(arch)
