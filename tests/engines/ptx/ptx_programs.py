"""Small PTX programs for tests: one instruction on numbers from memory, or the whole text of a kernel."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.engines.ptx.launch import PtxLaunch, pack_parameters
from harness.engines.ptx.memories import Flaw, Flaws, GlobalMemory, GlobalWatch
from harness.engines.ptx.native.native_runs import NativePolicy
from harness.engines.ptx.ptx_text import parse
from harness.engines.ptx.threads import LaunchShape
from harness.engines.ptx.wave_runner import INTERPRETED, PreparedKernel, StuckThreads
from harness.engines.virtual.native.native_code import ExecutorMode

Array = NDArray[Any]
NATIVE = NativePolicy(ExecutorMode.NATIVE)
POLICY = ContextVar("POLICY", default=INTERPRETED)
"""Which executor `launch` uses."""
HEAD = """
.version 8.7
.target sm_90a
.address_size 64
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """What one launch left."""

    flaws: tuple[Flaw, ...]
    stuck: StuckThreads | None


@contextmanager
def executed_by(policy: NativePolicy) -> Generator[None]:
    """While active, launches are executed by the interpreter or by native code."""
    token = POLICY.set(policy)
    try:
        yield
    finally:
        POLICY.reset(token)


def launch(
    text: str,
    arguments: Sequence[Any],
    *,
    programs: int = 1,
    shared_bytes: int = 0,
    cluster: int = 1,
    most_ctas: int = 0,
) -> Launched:
    """Launch a kernel on arrays, which it changes in place, and numbers; `most_ctas` of CTAs that may wait."""
    kernel, memory, flaws = parse(text), GlobalMemory(), Flaws()
    values = [
        memory.add(f"argument {number}", value.reshape(-1).view(np.uint8)).address
        if isinstance(value, np.ndarray)
        else value
        for number, value in enumerate(arguments)
    ]
    stuck = PtxLaunch(
        prepared=PreparedKernel(kernel, POLICY.get()),
        shape=LaunchShape(grid=(programs * cluster, 1, 1), threads=kernel.threads, cluster=cluster),
        memory=memory,
        parameters=pack_parameters(kernel, values),
        shared_bytes=shared_bytes,
        watch=GlobalWatch(),
        flaws=flaws,
        most_ctas=most_ctas,
    ).run()
    return Launched(flaws=tuple(flaws.seen.values()), stuck=stuck)


def kernel_of(body: str, *, pointers: int, threads: int = 32, declarations: str = "") -> str:
    """Return a kernel of some pointers, `%rd0` and on, with `%r0` as the number of the thread."""
    parameters = ", ".join(f".param .u64 p{number}" for number in range(pointers))
    loads = "\n".join(f"ld.param.u64 %rd{number}, [p{number}];" for number in range(pointers))
    return f"""{HEAD}{declarations}
.visible .entry kernel({parameters})
.reqntid {threads}
{{
.reg .pred %p<8>;
.reg .b16 %rs<16>;
.reg .b32 %r<64>;
.reg .b64 %rd<64>;
mov.u32 %r0, %tid.x;
{loads}
{body}
ret;
}}
"""


def computed(instruction: str, result: type[Any], *sources: Array) -> Array:
    """Return what an instruction computes: `$0` stands for its result, `$1` and on for its sources."""
    count = len(sources[0])
    lines: list[str] = []
    names = {"$0": _register(10, np.dtype(result).itemsize)}
    for number, source in enumerate(sources, start=1):
        size = source.dtype.itemsize
        names[f"${number}"] = _register(10 + number, size)
        lines += [
            f"mad.wide.u32 %rd{20 + number}, %r0, {size}, %rd{number};",
            f"ld.global.b{8 * size} {names[f'${number}']}, [%rd{20 + number}];",
        ]
    text = instruction
    for name, register in names.items():
        text = text.replace(name, register)
    size = np.dtype(result).itemsize
    lines += [text, f"mad.wide.u32 %rd20, %r0, {size}, %rd0;", f"st.global.b{8 * size} [%rd20], {names['$0']};"]
    out = np.zeros(count, result)
    assert count % 32 == 0
    launched = launch(kernel_of("\n".join(lines), pointers=len(sources) + 1, threads=count), [out, *sources])
    assert launched.flaws == ()
    return out


def _register(number: int, size_bytes: int) -> str:
    return f"%{ {2: 'rs', 4: 'r', 8: 'rd'}[size_bytes] }{number if size_bytes != 8 else number + 30}"
