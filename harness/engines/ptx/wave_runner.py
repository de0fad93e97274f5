"""Runs a wave: threads that stand at the same instruction execute it together.

Threads run until they branch, wait or end.  The group that stands first in the text runs next, so that diverged threads
meet again.  Threads before an instruction that a whole warp executes, such as a shuffle, stay until the others of their
warp are there: the end of a loop may stand before its body.  Every few steps the group that has waited longest runs
instead: a loop that waits for another thread must not keep that thread from running.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from harness.engines.ptx.barrier_effects import Blocking, blocking_effect, is_retried
from harness.engines.ptx.copies import copy_effect
from harness.engines.ptx.flow import (
    BasicBlock,
    blocks_of,
    is_blocking,
    is_jump,
    needs_whole_warp,
    register_file,
    target_blocks,
)
from harness.engines.ptx.lane_accesses import access_effect, report
from harness.engines.ptx.lanes import lane_effect
from harness.engines.ptx.matrices import matrix_effect
from harness.engines.ptx.memories import shared_layout, variable_addresses
from harness.engines.ptx.native.native_runs import NativePolicy, NativeRuns
from harness.engines.ptx.polling import ENDED, RUNNING, WAITING, Polled, PollWatch, ThreadStates
from harness.engines.ptx.ptx_kernel import PtxInstruction, PtxKernel, Register
from harness.engines.ptx.ptx_text import ASSERTION
from harness.engines.ptx.scaled_matrices import scaled_effect
from harness.engines.ptx.tensor_instructions import tensor_memory_effect
from harness.engines.ptx.threads import Array
from harness.engines.ptx.warps import warp_effect
from harness.engines.ptx.wave import Effect, RegisterRows, Wave
from harness.engines.virtual.machine import CannotExecuteAt, TooManyTrips
from harness.engines.virtual.native.native_code import ExecutorMode
from harness.engines.virtual.operations import ptx_instructions
from harness.errors import CannotExecute

T = TypeVar("T")
NO_EFFECT = ptx_instructions.NO_EFFECT - {"bar", "barrier"} | {"applypriority", "setmaxnreg", "pmevent"}
"""Roots of instructions that change no register here, and order what is in order already."""
FAIR_STEPS = 8
"""Every this many steps the group that has waited longest runs."""

WARP = 32
NO_LIMIT = np.iinfo(np.int32).max

INTERPRETED = NativePolicy(ExecutorMode.NUMPY)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """A basic block, ready to execute."""

    effects: tuple[Effect, ...]
    instructions: tuple[PtxInstruction, ...]
    """One for each effect; the blocking one of a block without effects."""
    blocking: Blocking | None = None
    jump: PtxInstruction | None = None
    condition: Callable[[Wave], Array] | None = None
    """The guard of the jump, or of the blocking instruction."""
    target: int = -1
    """The block that a branch leads to; -1 for the end of the kernel."""


class PreparedKernel:
    """A kernel whose instructions are resolved to functions."""

    def __init__(self, kernel: PtxKernel, policy: NativePolicy = INTERPRETED) -> None:
        """Resolve all instructions; `policy` decides which become native code.

        Raises:
            CannotExecuteAt: an instruction is not known.
        """
        self.kernel = kernel
        self.registers = register_file(kernel)
        shared, self.static_shared_bytes = shared_layout(kernel)
        self.rows = RegisterRows(self.registers, kernel, {**shared, **variable_addresses(kernel)})
        self._native = NativeRuns(rows=self.rows, is_live=self._may_be_live, policy=policy)
        blocks, number_of = blocks_of(kernel)
        self.blocks = [self._block(block, number_of) for block in blocks]
        self.needs_whole_warps = np.array(
            [any(map(needs_whole_warp, kernel.instructions[block.first : block.end])) for block in blocks]
        )
        """For each block, whether it has an instruction that all threads of a warp execute together."""

    def _block(self, part: BasicBlock, number_of: Mapping[int, int]) -> _Block:
        instructions = self.kernel.instructions[part.first : part.end]
        last = instructions[-1]
        condition = None if last.guard is None else self.rows.reader(last.guard, np.bool_)
        if is_blocking(last):
            blocking = self._resolved(last, blocking_effect)
            return _Block(effects=(), instructions=(last,), blocking=blocking, condition=condition)
        if not is_jump(last):
            return self._straight(instructions, part.first)
        block = self._straight(instructions[:-1], part.first)
        targets = target_blocks(self.kernel, number_of, last) if last.root == "bra" else ()
        return _Block(
            effects=block.effects,
            instructions=block.instructions,
            jump=last,
            condition=condition,
            target=targets[0] if targets else -1,
        )

    def _straight(self, instructions: Sequence[PtxInstruction], first: int) -> _Block:
        """Return a block of instructions that do not wait; `first` is the number of the first one in the kernel."""
        numbers = [at for at, instruction in enumerate(instructions, first) if not _is_empty(instruction)]
        kept = [self.kernel.instructions[at] for at in numbers]
        effects = [self._effect(instruction) for instruction in kept]
        merged, shown = self._native.merged(kept, effects, numbers)
        return _Block(effects=merged, instructions=shown)

    def _may_be_live(self, register: Register, number: int) -> bool:
        """Return False for a register that nothing reads after an instruction."""
        return self.registers.last[register] >= number

    def _effect(self, instruction: PtxInstruction) -> Effect:
        effect = self._resolved(instruction, _effect_of)
        if instruction.guard is None:
            return effect
        condition = self.rows.reader(instruction.guard, np.bool_)

        def guarded(wave: Wave) -> None:
            holds, outer = condition(wave), wave.mask
            mask = holds if outer is None else holds & outer
            if not mask.any():
                return
            # The instruction may change its own predicate.
            wave.mask = None if mask.all() else mask.copy()
            try:
                effect(wave)
            finally:
                wave.mask = outer

        return guarded

    def _resolved(self, instruction: PtxInstruction, resolve: Callable[[PtxInstruction, RegisterRows], T]) -> T:
        try:
            return resolve(instruction, self.rows)
        except CannotExecute as error:
            raise CannotExecuteAt(error.what, instruction.location) from error


def _is_empty(instruction: PtxInstruction) -> bool:
    return instruction.root in NO_EFFECT and instruction.words[:2] not in {
        ("fence", "proxy"),
        ("fence", "mbarrier_init"),
    }


def _assertion_effect(instruction: PtxInstruction, rows: RegisterRows) -> Effect | None:
    del rows
    return partial(_fail_assertion, instruction) if instruction.root == ASSERTION else None


def _fail_assertion(instruction: PtxInstruction, wave: Wave) -> None:
    report(wave, instruction, "failed assertion", int(wave.active()[0]), "which ends the launch")
    raise CannotExecute("anything after an assertion that does not hold")


_RESOLVERS = (
    lane_effect,
    access_effect,
    warp_effect,
    matrix_effect,
    scaled_effect,
    copy_effect,
    tensor_memory_effect,
    _assertion_effect,
)


def _effect_of(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    for resolve in _RESOLVERS:
        effect = resolve(instruction, rows)
        if effect is not None:
            return effect
    raise CannotExecute(f"the PTX instruction {instruction.opcode}")


@dataclass(frozen=True, slots=True)
class StuckThreads:
    """Threads that wait for ever, and at which instructions."""

    waiting: tuple[tuple[PtxInstruction, int, int], ...]
    """For each instruction and CTA: the instruction, the CTA's linear id, and the number of a warp there."""
    ctas: int
    """The CTAs that have begun and not ended."""
    not_started: int = 0
    """The CTAs that start only when others end."""
    polled: tuple[Polled, ...] = ()
    """What those that run read again and again."""


class WaveRunner:
    """Runs one wave to its end."""

    def __init__(self, prepared: PreparedKernel, wave: Wave, step_limit: int, *, may_poll: bool = False) -> None:
        """`may_poll`: `run` also returns once all threads poll memory, and can be called again."""
        self._prepared = prepared
        self._wave = wave
        self._barriers = wave.barriers
        self._step_limit = step_limit
        self._threads = ThreadStates.of(wave.size)
        self._at, self._state, self._ran = self._threads.at, self._threads.state, self._threads.ran
        self._watch = PollWatch(wave) if may_poll else None
        self.is_polling = False
        """All threads that have not ended poll memory, and nothing has changed it."""
        self._waits_at = np.zeros(wave.size, np.int32)
        """The block of the barrier at which each thread waits, or waited last."""
        self._steps = 0

    def run(self) -> StuckThreads | None:
        """Execute all threads; return who waits for ever, if anyone does.

        Raises:
            CannotExecuteAt: an instruction cannot be executed with these operands.
            TooManyTrips: the wave does not end.
        """
        self.is_polling = False
        together: int | None = None
        while True:
            if together is not None:
                together = self._run_together(together)
                if self.is_polling:
                    return None
            running = self._state == RUNNING
            if not running.any():
                if (self._state == ENDED).all():
                    self._wave.asynchronous.finish()
                    self._wave.tensor.finish()
                    return None
                if not self._wake():
                    return self.stuck()
                continue
            first = self._at[running]
            if running.all() and (first == first[0]).all():
                together = int(first[0])
                continue
            running = self._without_held(running)
            number = self._chosen(running)
            if self._polls():
                return None
            self._step(number, running)

    def _without_held(self, running: Array) -> Array:
        """Leave out threads whose block needs a whole warp, while others of their warp run elsewhere."""
        needing = running & self._prepared.needs_whole_warps[self._at]
        if not needing.any():
            return running
        first = np.where(running, self._at, NO_LIMIT).reshape(-1, WARP).min(axis=1)
        last = np.where(running, self._at, -1).reshape(-1, WARP).max(axis=1)
        free = running & ~(needing & np.repeat(first < last, WARP))
        return free if free.any() else running

    def _chosen(self, running: Array) -> int:
        self._count_step()
        if self._steps % FAIR_STEPS:
            return int(self._at[running].min())
        threads = np.flatnonzero(running)
        return int(self._at[threads[self._ran[threads].argmin()]])

    def _wake(self) -> bool:
        """Let asynchronous work that somebody waits for land, and threads go on; False if nothing changes."""
        woken = self._barriers.awake()
        if woken is None and self._wave.asynchronous.land_next():
            woken = self._barriers.awake()
            if woken is None:
                return True
        if woken is None:
            return False
        self._state[woken & (self._state == WAITING)] = RUNNING
        return True

    def _run_together(self, number: int) -> int | None:
        """Run blocks from one that all threads are at; return the next one, None once threads part."""
        wave, everyone = self._wave, np.ones(self._wave.size, np.bool_)
        following: int | None = number
        while following is not None:
            self._count_step()
            if self._watch is not None:
                self._at[:], self._ran[:] = following, self._steps
                if self._polls():
                    return None
            wave.mask = None
            number, block = following, self._prepared.blocks[following]
            if block.blocking is not None:
                following = number + 1 if self._pass(block, number, everyone).all() else None
                continue
            self._execute(block)
            following = self._after(block, number, everyone)
        return None

    def _polls(self) -> bool:
        self.is_polling = self._watch is not None and self._watch.polls(self._threads, self._steps)
        return self.is_polling

    @property
    def polled(self) -> tuple[Polled, ...]:
        """What the threads read while they poll."""
        return () if self._watch is None else self._watch.polled

    @property
    def polled_changes(self) -> int:
        """The changes of memory when the threads polled it."""
        return -1 if self._watch is None else self._watch.version[0]

    @property
    def live_ctas(self) -> int:
        """The CTAs of clusters that have not ended."""
        shape = self._wave.shape
        each = shape.threads * shape.cluster
        return int((self._state != ENDED).reshape(-1, each).any(axis=1).sum()) * shape.cluster

    def _after(self, block: _Block, number: int, everyone: Array) -> int | None:
        """Return the block that all threads are at after one; None if they part or end."""
        if block.jump is None:
            return number + 1
        taken = everyone if block.condition is None else block.condition(self._wave)
        if not taken.any():
            return number + 1
        if taken.all() and block.target >= 0:
            return block.target
        self._part(block, number, everyone, taken)
        return None

    def _count_step(self) -> None:
        self._steps += 1
        if self._steps > self._step_limit:
            raise TooManyTrips(f"a loop made {self._step_limit:,} trips and waits for nobody")

    def _step(self, number: int, running: Array) -> None:
        """Run one block for the threads that are at it."""
        wave, block = self._wave, self._prepared.blocks[number]
        group = running & (self._at == number)
        self._ran[group] = self._steps
        if block.blocking is not None:
            wave.mask = group
            self._pass(block, number, group)
            return
        wave.mask = group
        self._execute(block)
        if block.jump is None:
            self._at[group] = number + 1
        elif block.condition is None:
            self._jump(block, group)
        else:
            self._part(block, number, group, block.condition(wave) & group)

    def _execute(self, block: _Block) -> None:
        wave = self._wave
        for at, effect in enumerate(block.effects):
            try:
                effect(wave)
            except CannotExecuteAt:
                raise
            except CannotExecute as error:
                raise CannotExecuteAt(error.what, block.instructions[at].location) from error

    def _pass(self, block: _Block, number: int, group: Array) -> Array:
        """Let threads reach a barrier; return those that go on."""
        assert block.blocking is not None
        (instruction,) = block.instructions
        if block.condition is not None:
            holds = block.condition(self._wave)
            skipping = group & ~holds
            self._at[skipping] = number + 1
            group = group & holds
            if not group.any():
                return skipping
        else:
            skipping = np.zeros_like(group)
        passing = block.blocking(self._wave, group)
        held = group & ~passing
        self._at[group] = number + 1
        if is_retried(instruction):
            self._at[held] = number
        self._state[held], self._waits_at[held] = WAITING, number
        released = self._barriers.released()
        if released is not None:
            self._state[released & (self._state == WAITING)] = RUNNING
            passing = passing | (group & (self._state == RUNNING))
        return passing | skipping

    def _part(self, block: _Block, number: int, group: Array, taken: Array) -> None:
        self._at[group & ~taken] = number + 1
        self._jump(block, taken)

    def _jump(self, block: _Block, group: Array) -> None:
        if block.target < 0:
            self._end(group)
        else:
            self._at[group] = block.target

    def _end(self, group: Array) -> None:
        self._state[group] = ENDED
        self._wave.asynchronous.shadow.ended(group)

    def stuck(self) -> StuckThreads:
        """Return the threads that wait at barriers."""
        waiting: dict[tuple[int, int], tuple[PtxInstruction, int, int]] = {}
        wave = self._wave
        for thread in np.flatnonzero(self._state == WAITING).tolist():
            number = int(self._waits_at[thread])
            block = self._prepared.blocks[number]
            cta, own = divmod(thread, wave.shape.threads)
            waiting.setdefault((number, cta), (block.instructions[0], int(wave.ctas[cta]), own // 32))
        return StuckThreads(tuple(waiting.values()), self.live_ctas)
