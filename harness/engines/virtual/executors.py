"""The ways to execute a launch, and the choice among them, which is made once per launch.

Each executor composes parts that others own: memory, machine, native code, scheduler.  All of them compute the same
values from the same arguments.  They differ in speed and in what they can detect.
"""

import sys
import time
from dataclasses import dataclass, replace
from typing import Protocol

from harness.engines.ttir.reach import reach_of
from harness.engines.virtual.machine import Machine
from harness.engines.virtual.memory.accesses import Memory
from harness.engines.virtual.memory.events import EventCollector
from harness.engines.virtual.memory.oversized_launch import AccessLimitReached, SampledMemory
from harness.engines.virtual.native.native_code import NativeBackend
from harness.engines.virtual.prepared_launch import PreparedLaunch
from harness.engines.virtual.synchronisation.race_filter import FilteredMemory
from harness.engines.virtual.synchronisation.race_recheck import RecheckedLaunch, filtered_memory
from harness.engines.virtual.synchronisation.residency import ResidentLaunch
from harness.errors import CannotExecute
from harness.model.run import Deadlocked


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionOutcome:
    """What an executor reports, besides the events of memory."""

    executor: str = "numpy"
    """The value of `Launch.executor`."""
    was_cut: bool = False
    """The programs of an oversized launch reached the limit of accesses."""
    deadlocked: Deadlocked | None = None


class Executor(Protocol):
    """One way to execute one launch."""

    def run(self) -> ExecutionOutcome:
        """Execute the launch, once.

        Raises:
            CannotExecute: an operation is unknown, or cannot be executed with these arguments.
        """
        ...


@dataclass(frozen=True, slots=True)
class SampledExecutor:
    """Executes a few programs of an oversized launch, up to a limit of accesses.  Checks bounds only."""

    launch: PreparedLaunch
    memory: SampledMemory

    def run(self) -> ExecutionOutcome:
        # The memory ends long loops, so the limit of trips must not.  The last rows of a persistent kernel come first:
        # there an index overflows.
        context = replace(self.launch.context, most_trips=sys.maxsize, begins_at_ends=True)
        try:
            Machine(context, self.memory).run(self.launch.binding.values, self.launch.ids)
        except AccessLimitReached:
            return ExecutionOutcome(was_cut=True)
        return ExecutionOutcome()


@dataclass(frozen=True, slots=True)
class ScheduledExecutor:
    """Executes programs that may wait for each other: one coroutine each, as many resident as the GPU holds."""

    resident: ResidentLaunch
    events: EventCollector

    def run(self) -> ExecutionOutcome:
        return ExecutionOutcome(deadlocked=self.resident.run(self.events))


@dataclass(frozen=True, slots=True)
class LockStepExecutor:
    """Executes all programs side by side, one operation after the other."""

    launch: PreparedLaunch
    memory: Memory

    def run(self) -> ExecutionOutcome:
        Machine(self.launch.context, self.memory).run(self.launch.binding.values, self.launch.ids)
        return ExecutionOutcome()


@dataclass(frozen=True, slots=True)
class RaceCheckedExecutor:
    """Executes in lock-step, then rechecks with a scheduler which accesses atomics order."""

    launch: PreparedLaunch
    memory: FilteredMemory
    events: EventCollector

    def run(self) -> ExecutionOutcome:
        RecheckedLaunch(self.launch, self.memory).run(self.events)
        return ExecutionOutcome()


@dataclass(frozen=True, slots=True)
class NativeExecutor:
    """Executes in native code if that proves the launch clean, otherwise with the fallback."""

    launch: PreparedLaunch
    native: NativeBackend
    events: EventCollector
    fallback: LockStepExecutor | RaceCheckedExecutor

    def run(self) -> ExecutionOutcome:
        if self.native.execute(self.launch, self.events):
            return ExecutionOutcome(executor="native")
        began = time.perf_counter()
        outcome = self.fallback.run()
        self.native.record_machine_time(self.launch, time.perf_counter() - began)
        return outcome


def choose_executor(resident: ResidentLaunch, events: EventCollector, native: NativeBackend) -> Executor:
    """Return the executor of a launch; the first rule that applies decides.

    Raises:
        CannotExecute: no executor can run the launch.
    """
    launch = resident.launch
    arguments = launch.binding.arguments
    if launch.may_wait:
        if launch.is_oversized:
            raise CannotExecute("programs that may wait for others of which only a sample runs")
        return ScheduledExecutor(resident, events)
    if launch.is_oversized:
        return SampledExecutor(launch, SampledMemory(arguments, events))
    if launch.is_exact:
        return LockStepExecutor(launch, Memory(arguments, events))
    # The filter marks buffers as tracked, which native code reads: create it before native code runs.
    filtered = filtered_memory(reach_of(launch.module.kernel), launch.binding, events) if launch.has_atomics else None
    if filtered is not None:
        return NativeExecutor(launch, native, events, RaceCheckedExecutor(launch, filtered, events))
    return NativeExecutor(launch, native, events, LockStepExecutor(launch, Memory(arguments, events)))
