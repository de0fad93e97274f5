"""`tcgen05.cp`: tiles from shared memory to tensor memory."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.engines.ptx.descriptors import MatrixPlaces
from harness.engines.ptx.lane_accesses import Issue, read_tile
from harness.engines.ptx.ptx_kernel import PtxInstruction
from harness.engines.ptx.tensor_issue import issuers, members_of, values_at
from harness.engines.ptx.tensor_memory import COLUMN_MASK
from harness.engines.ptx.threads import WARP, Array
from harness.engines.ptx.wave import Effect, RegisterRows, Wave
from harness.errors import CannotExecute

CELL_BYTES = 4
_QUARTER = np.arange(WARP)
_SHAPES: Mapping[frozenset[str], tuple[int, Array]] = {
    frozenset({"128x256b"}): (8, np.arange(128)[None, :]),
    frozenset({"128x128b"}): (4, np.arange(128)[None, :]),
    frozenset({"64x128b", "warpx2::02_13"}): (4, np.arange(64)[None, :] + np.array([[0], [64]])),
    frozenset({"64x128b", "warpx2::01_23"}): (4, np.r_[_QUARTER, _QUARTER + 64][None, :] + np.array([[0], [32]])),
    frozenset({"32x128b", "warpx4"}): (4, _QUARTER[None, :] + np.array([[0], [32], [64], [96]])),
}
"""By shape and multicast: the cells of a row, and the lanes that each row goes to, with the axes copy and row."""


def copy_effect(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """Return the effect of `tcgen05.cp`.

    Raises:
        CannotExecute: the shape is not known, or the elements are unpacked on the way.
    """
    form = frozenset(instruction.words[2:]) - {"cta_group::1", "cta_group::2"}
    if form not in _SHAPES:
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    is_pair = "cta_group::2" in instruction.words
    width, lanes = _SHAPES[form]
    target, descriptor = rows.address(instruction.operands[0]), rows.reader(instruction.operands[1], np.uint64)

    def effect(wave: Wave) -> None:
        for threads in issuers(wave):
            copy = _Copy(
                wave=wave,
                instruction=instruction,
                threads=threads,
                ctas=members_of(wave, threads, is_pair=is_pair),
                width=width,
                lanes=lanes,
                targets=values_at(wave, target, threads),
                descriptors=values_at(wave, descriptor, threads),
                issued=wave.asynchronous.shadow.snapshot(),
            )
            wave.tensor.queue.issue(copy)

    return effect


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Copy:
    """One `tcgen05.cp` that has been issued."""

    wave: Wave
    instruction: PtxInstruction
    threads: Array
    ctas: Array
    """For each thread the CTAs that copy."""
    width: int
    lanes: Array
    targets: Array
    descriptors: Array
    issued: object

    def land(self, chosen: Array) -> None:
        """Copy what shared memory holds now."""
        wave, ctas = self.wave, self.ctas[chosen]
        group = ctas.shape[1]
        places = MatrixPlaces.blackwell(np.repeat(self.descriptors[chosen], group))
        addresses = places.addresses(self.lanes.shape[1], self.width, CELL_BYTES, is_depth_inner=True)
        threads = np.repeat(self.threads[chosen], group)
        issue = Issue(wave, self.instruction, threads, self.issued)
        content = read_tile(issue, addresses, CELL_BYTES, ctas.reshape(-1))
        targets = np.repeat(self.targets[chosen], group)[:, None, None, None]
        columns = (targets & COLUMN_MASK) + np.arange(self.width)
        tensor = wave.tensor
        index = tensor.index(
            self.instruction,
            int(self.threads[0]),
            ctas.reshape(-1)[:, None, None, None],
            self.lanes[None, :, :, None],
            columns,
        )
        tensor.write(self.instruction, int(self.threads[0]), index, content[:, None])
