"""Parses CUDA's error messages and printed device assertions.

It decides which errors destroyed the CUDA context.  Pure: it reads texts and asks no GPU.
"""

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace

from harness.model.run import Ending, Faulted, FaultOf, OutOfMemory, Raised, Refused, Source

CUDA_ERROR = re.compile(r"(?:CUDA error|Triton Error \[CUDA\]): ([^\n|]*)")
"""How torch (2.11 to 2.13) and Triton (3.6 to 3.9) report an error of the CUDA driver."""
ASSERTION = re.compile(
    r"^(.+?):(\d+): \S*: block: \[(\d+,\d+,\d+)\], thread: \[(\d+,\d+,\d+)\] Assertion `(.*)` failed\.", re.MULTILINE
)
"""The line that the driver prints for each thread whose `tl.device_assert`, or check of a sanitizer, fails."""
FAULTS_BY_TEXT: Mapping[str, FaultOf] = {
    "illegal memory access": FaultOf.ILLEGAL_ADDRESS,
    "misaligned address": FaultOf.MISALIGNED_ADDRESS,
    "device-side assert": FaultOf.DEVICE_ASSERT,
    "illegal instruction": FaultOf.ILLEGAL_INSTRUCTION,
}
OUT_OF_MEMORY = "out of memory"
CALL_ERRORS = (
    *("invalid argument", "invalid configuration", "too many resources", "invalid value"),
    *("stream is capturing", "during capture", "capturing stream", "capturing blocking stream", "uncaptured work"),
)
"""Errors of a call, or of the capture of a CUDA graph, rather than of a kernel: the context survives them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """One printed line."""

    source: Source
    program: str
    """As printed: `3,0,0`."""
    thread: str
    text: str


def as_fault(ending: Ending, launch: str | None) -> Ending:
    """Return the fault, or the lack of memory, behind a raised error; else the ending itself.

    A fault stays a fault if the op declares that it refuses such an error.
    """
    if not isinstance(ending, Raised | Refused):
        return ending
    return parse_fault(ending.message, launch) or ending


def parse_fault(message: str, launch: str | None) -> Faulted | OutOfMemory | None:
    """Return the fault that an error message reports; None if the CUDA context survived."""
    error = CUDA_ERROR.search(message)
    if not error:
        return None
    text = error[1].strip()
    if OUT_OF_MEMORY in text:
        return OutOfMemory(limit_bytes=0, message=error[0].strip())
    if any(part in text for part in CALL_ERRORS):
        return None
    fault = next((fault for part, fault in FAULTS_BY_TEXT.items() if part in text), FaultOf.OTHER)
    return Faulted(fault=fault, message=text, launch=launch)


def with_assertion(ending: Ending, log: str) -> Ending:
    """Add the text and the line of the printed assertion to a fault by assertion."""
    if not isinstance(ending, Faulted) or ending.fault is not FaultOf.DEVICE_ASSERT:
        return ending
    printed = next(parse_assertions(log), None)
    if printed is None:
        return ending
    message = f"`{printed.text}` fails in program [{printed.program}], thread [{printed.thread}]"
    return replace(ending, message=message, source=printed.source)


def parse_assertions(log: str) -> Generator[Assertion]:
    """Yield the failed device assertions in the order of the log."""
    for printed in ASSERTION.finditer(log):
        file, line, program, thread, text = printed.groups()
        yield Assertion(source=Source(file=file, line=int(line)), program=program, thread=thread, text=text)
