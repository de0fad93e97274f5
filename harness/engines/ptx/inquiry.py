"""Looks into a launch whose PTX is wrong: the first wrong value, and the pass of the compiler that makes it wrong."""

import time

from harness.engines.comparison.executed_launches import ExecutedLaunch
from harness.engines.comparison.launches import CannotRepeat
from harness.engines.ptx.first_value import FirstValueSearch, ValueUnknown
from harness.engines.ptx.pass_blame import PassesUnknown, blamed_passes
from harness.engines.ptx.ptx_machine import PtxMachine
from harness.engines.ptx.wrong_launch import WrongLaunch
from harness.engines.virtual.launches import Launches
from harness.errors import CannotExecute
from harness.model.miscompilation import FirstValue, InquiryRequest, Miscompilation, PassBlame

VALUE_SHARE = 0.4
"""The share of the time that the search for the first value may take, if passes are blamed too."""


class Inquiry:
    """Watches the launches of a case, and looks into the first that shows the fault."""

    def __init__(self, launches: Launches, machine: PtxMachine, asked: InquiryRequest) -> None:
        self._launches, self._machine, self._asked = launches, machine, asked
        self.kernel = asked.kernel
        self.result = Miscompilation(first_unknown="no launch shows it", passes_unknown="no launch shows it")
        self._is_done = False

    def watch(self, done: ExecutedLaunch) -> None:
        """Look into a launch, unless an earlier one showed the fault."""
        if self._is_done:
            return
        wrong = WrongLaunch(self._launches, self._machine, done, self._asked)
        try:
            if not wrong.is_wrong():
                return
        except CannotRepeat as error:
            self.result = Miscompilation(first_unknown=str(error), passes_unknown=str(error))
            return
        self._is_done = True
        begun = time.monotonic()
        share = VALUE_SHARE if self._asked.blames_passes else 1.0
        first, first_unknown = self._first(wrong, begun + share * self._asked.limit_s)
        passes, passes_unknown = self._passes(wrong, begun + self._asked.limit_s)
        self.result = Miscompilation(
            first=first, first_unknown=first_unknown, passes=passes, passes_unknown=passes_unknown
        )

    def _first(self, wrong: WrongLaunch, until: float) -> tuple[FirstValue | None, str]:
        if self._asked.flaw:
            return None, ""
        try:
            return FirstValueSearch(wrong, until).result(), ""
        except (ValueUnknown, CannotExecute) as error:
            return None, str(error)

    def _passes(self, wrong: WrongLaunch, until: float) -> tuple[PassBlame | None, str]:
        if not self._asked.blames_passes:
            return None, ""
        try:
            return blamed_passes(wrong, self._machine, until), ""
        except PassesUnknown as error:
            return None, str(error)
