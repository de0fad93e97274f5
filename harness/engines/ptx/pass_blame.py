"""Finds the passes of Triton's compiler without which the PTX of a wrong launch is right."""

from harness.engines.comparison.launches import CannotRepeat
from harness.engines.ptx.ptx_machine import PtxMachine
from harness.engines.ptx.wrong_launch import WrongLaunch
from harness.engines.ttir.own_names import renamed_assembly
from harness.model.miscompilation import PassBlame


class PassesUnknown(Exception):
    """No pass could be left out; says why."""


def blamed_passes(wrong: WrongLaunch, machine: PtxMachine, until: float) -> PassBlame:
    """Leave out each pass in turn, until a moment of the monotonic clock, and execute what the others make.

    Raises:
        PassesUnknown: there was no time, or the kernel does not compile.
    """
    request = wrong.done.request
    usual = renamed_assembly(machine.build_of(request).text)
    gone: list[str] = []
    not_judged: list[str] = []
    not_tried: list[str] = []
    judged = 0
    for variant, build in machine.builds_without_passes(request, until):
        omitted = variant.omitted
        if build is None:
            (not_judged if variant.was_tried else not_tried).append(omitted)
            continue
        try:
            is_equal = renamed_assembly(build.text) == usual  # equal code needs no run
            is_wrong = is_equal or wrong.is_wrong(build)
        except CannotRepeat:
            not_judged.append(omitted)
            continue
        judged += 1
        if not is_wrong:
            gone.append(omitted)
    if not judged:
        raise PassesUnknown("the kernel compiles without none of its passes, or the time is too short")
    return PassBlame(gone_without=tuple(gone), judged=judged, not_judged=tuple(not_judged), not_tried=tuple(not_tried))
