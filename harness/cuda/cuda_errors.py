"""What CUDA's errors say: which of them cost the process its context, and what a device assertion printed.

Pure: reads messages and logs, asks no GPU.
"""

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace

from harness.model.run import Ending, Faulted, FaultOf, OutOfMemory, Raised, Refused, Source

CUDA_ERROR = re.compile(r"(?:CUDA error|Triton Error \[CUDA\]): ([^\n|]*)")
"""What torch (2.6 to 2.13) and Triton (3.6 to 3.9) say of an error of the CUDA driver."""
ASSERTION = re.compile(
    r"^(.+?):(\d+): \S*: block: \[(\d+,\d+,\d+)\], thread: \[(\d+,\d+,\d+)\] Assertion `(.*)` failed\.", re.MULTILINE
)
"""What the driver prints for `tl.device_assert`, and for checks of Triton's sanitizers, a line for each thread."""
FAULTS: Mapping[str, FaultOf] = {
    "illegal memory access": FaultOf.ILLEGAL_ADDRESS,
    "misaligned address": FaultOf.MISALIGNED_ADDRESS,
    "device-side assert": FaultOf.DEVICE_ASSERT,
    "illegal instruction": FaultOf.ILLEGAL_INSTRUCTION,
}
OUT_OF_MEMORY = "out of memory"
LEAVES_CONTEXT = ("invalid argument", "invalid configuration", "too many resources", "invalid value")
"""Errors of a call, not of a kernel: the context lives on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """One line of what the driver prints."""

    source: Source
    program: str
    """`3,0,0`"""
    thread: str
    text: str


def faulted(ending: Ending, launch: str | None) -> Ending:
    """The ending as a fault, where what was raised is an error that the context does not survive.

    Also where the op declares that it refuses what is raised so; and want of memory as that, whoever tells of it.
    """
    if not isinstance(ending, Raised | Refused):
        return ending
    return fault_told(ending.message, launch) or ending


def fault_told(message: str, launch: str | None) -> Faulted | OutOfMemory | None:
    """What an exception's words say of the GPU; None where they say nothing that concerns more than one call."""
    found = CUDA_ERROR.search(message)
    if not found:
        return None
    says = found[1].strip()
    if OUT_OF_MEMORY in says:
        return OutOfMemory(limit_bytes=0, message=found[0].strip())
    if any(part in says for part in LEAVES_CONTEXT):
        return None
    fault = next((fault for part, fault in FAULTS.items() if part in says), FaultOf.OTHER)
    return Faulted(fault=fault, message=says, launch=launch)


def with_assertion(ending: Ending, log: str) -> Ending:
    """A fault by assertion, with the assertion's own words and line, as the driver printed them."""
    if not isinstance(ending, Faulted) or ending.fault is not FaultOf.DEVICE_ASSERT:
        return ending
    printed = next(assertions(log), None)
    if printed is None:
        return ending
    message = f"`{printed.text}` fails in program [{printed.program}], thread [{printed.thread}]"
    return replace(ending, message=message, source=printed.source)


def assertions(log: str) -> Generator[Assertion]:
    """The device assertions that failed, in the order in which they were printed."""
    for printed in ASSERTION.finditer(log):
        file, line, program, thread, text = printed.groups()
        yield Assertion(source=Source(file=file, line=int(line)), program=program, thread=thread, text=text)
