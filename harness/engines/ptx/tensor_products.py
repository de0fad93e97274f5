"""`tcgen05.mma`: products whose sums lie in tensor memory.

One thread issues a product, of its CTA or of a pair.  The operands are read when the product lands, so a tile that is
overwritten too early shows as a wrong sum.  Sums are in float64 and rounded once, as those of `mma`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.engines.ptx.descriptors import MatrixPlaces
from harness.engines.ptx.lane_accesses import Issue, read_tile
from harness.engines.ptx.narrow_elements import is_narrow, unpacked, unpadded
from harness.engines.ptx.ptx_kernel import Address, Immediate, Operand, PtxInstruction, RegisterVector
from harness.engines.ptx.small_floats import scales_of
from harness.engines.ptx.tensor_issue import issuers, members_of, values_at
from harness.engines.ptx.tensor_memory import COLUMN_MASK, LANE_SHIFT, LANES
from harness.engines.ptx.tensor_shapes import ROW_BYTES, ProductShape, product_shape
from harness.engines.ptx.threads import WARP, Array
from harness.engines.ptx.warpgroups import elements
from harness.engines.ptx.wave import Effect, Read, RegisterRows, Wave
from harness.errors import CannotExecute

QUARTERS = LANES // WARP
_CELL_BYTES = 4
_UNSUPPORTED = ("ws", "sp")
_SCALES_OF_WORD = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4}
_BLOCKS = {"block16": 16, "block32": 32}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Form:
    """The operands of one instruction."""

    instruction: PtxInstruction
    kind: str
    is_pair: bool
    target: Read
    left: Read
    is_left_in_tensor: bool
    right: Read
    descriptor: Read
    keeps: Read
    """True where the product is added to the sum."""
    shift: int
    """The old sum is divided by two to this power."""
    disabled: tuple[Read, ...]
    """Lanes that keep their sums, a bit for each."""
    scales: tuple[Read, Read] | None
    scales_of_row: int
    """How many scales a row of an operand has."""


def product_effect(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """Return the effect of `tcgen05.mma`.

    Raises:
        CannotExecute: the instruction has a form that is not known.
    """
    form = _form(instruction, rows)

    def effect(wave: Wave) -> None:
        for threads in issuers(wave):
            _issue(wave, form, threads)

    return effect


def _form(instruction: PtxInstruction, rows: RegisterRows) -> _Form:
    words = instruction.words
    kind = next((word.removeprefix("kind::") for word in words if word.startswith("kind::")), "")
    if not kind or any(word in words for word in _UNSUPPORTED):
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    target, left, right, descriptor, *rest = instruction.operands
    addresses = [part for part in rest if isinstance(part, Address)]
    masks = [part for part in rest if isinstance(part, RegisterVector)]
    plain = [part for part in rest if not isinstance(part, Address | RegisterVector)]
    is_scaled = "block_scale" in words
    if len(addresses) != (2 if is_scaled else 0) or not plain:
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    return _Form(
        instruction=instruction,
        kind=kind,
        is_pair="cta_group::2" in words,
        target=rows.address(target),
        left=rows.address(left) if isinstance(left, Address) else rows.reader(left, np.uint64),
        is_left_in_tensor=isinstance(left, Address),
        right=rows.reader(right, np.uint64),
        descriptor=rows.reader(descriptor, np.uint32),
        keeps=rows.reader(plain[0], np.bool_),
        shift=_shift(plain[1:]),
        disabled=tuple(rows.reader(part, np.uint32) for mask in masks for part in mask.parts),
        scales=(rows.address(addresses[0]), rows.address(addresses[1])) if is_scaled else None,
        scales_of_row=_scales_of_row(instruction, kind) if is_scaled else 0,
    )


def _shift(rest: Sequence[Operand]) -> int:
    if not rest:
        return 0
    assert isinstance(rest[0], Immediate)
    return rest[0].value


def _scales_of_row(instruction: PtxInstruction, kind: str) -> int:
    """Return how many scales each row of an operand has: one for 16 or for 32 elements."""
    depth = ROW_BYTES * (1 if kind == "mxf8f6f4" else 2)
    for word in instruction.words:
        if word in _SCALES_OF_WORD:
            return _SCALES_OF_WORD[word]
        if word in _BLOCKS:
            return depth // _BLOCKS[word]
    return {"mxf8f6f4": 1, "mxf4": 2}.get(kind, 4)


def _issue(wave: Wave, form: _Form, threads: Array) -> None:
    descriptors = values_at(wave, form.descriptor, threads)
    if (descriptors != descriptors[0]).any():
        raise CannotExecute(f"{form.instruction.opcode} with several instruction descriptors")
    shape = product_shape(form.kind, int(descriptors[0]))
    members = members_of(wave, threads, is_pair=form.is_pair)
    _check(form, shape, members.shape[1])
    product = _Product(
        wave=wave,
        form=form,
        shape=shape,
        threads=threads,
        ctas=members,
        targets=values_at(wave, form.target, threads),
        left=values_at(wave, form.left, threads),
        right=values_at(wave, form.right, threads),
        keeps=values_at(wave, form.keeps, threads),
        disabled=np.stack([values_at(wave, read, threads) for read in form.disabled], axis=1)
        if form.disabled
        else None,
        scales=tuple(values_at(wave, read, threads) for read in form.scales) if form.scales is not None else (),
        issued=wave.asynchronous.shadow.snapshot(),
    )
    wave.tensor.queue.issue(product)


def _check(form: _Form, shape: ProductShape, group: int) -> None:
    heights = {128, 256} if group == 2 else {64, 128}
    is_folded = group == 2 and shape.height == LANES
    if shape.height not in heights or shape.width % (8 * group) or not shape.width:
        raise CannotExecute(f"{form.instruction.opcode} of {shape.height} x {shape.width} in {group} CTAs")
    if (is_folded and (form.is_left_in_tensor or form.scales)) or (form.scales and shape.height == 64):
        raise CannotExecute(f"{form.instruction.opcode} of {shape.height} rows with operands in tensor memory")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Product:
    """One `tcgen05.mma` that has been issued; arrays have one element for each thread that did."""

    wave: Wave
    form: _Form
    shape: ProductShape
    threads: Array
    ctas: Array
    """The CTAs of each product, one or two."""
    targets: Array
    left: Array
    right: Array
    keeps: Array
    disabled: Array | None
    scales: tuple[Array, ...]
    issued: object

    @property
    def height(self) -> int:
        """The rows of one CTA."""
        return self.shape.height // self.ctas.shape[1]

    def land(self, chosen: Array) -> None:
        """Compute the sums from what the memories hold now."""
        shape, ctas = self.shape, self.ctas[chosen]
        right = self._shared_operand(chosen, is_left=False)
        right = right.reshape(len(ctas), 1, shape.width, shape.depth)
        if self.form.is_left_in_tensor:
            left = self._tensor_operand(ctas, self.left[chosen])
        else:
            left = self._shared_operand(chosen, is_left=True)
        left, right = left * shape.signs[0], right * shape.signs[1]
        if self.scales:
            total = self._scaled_product(chosen, ctas, left, right)
        else:
            total = np.matmul(left, right.swapaxes(2, 3))
        self._add(chosen, ctas, total)

    # --- operands ---

    def _shared_operand(self, chosen: Array, *, is_left: bool) -> Array:
        """Return an operand with the axes product, CTA, row, depth: each CTA holds a part of its rows."""
        shape, ctas = self.shape, self.ctas[chosen]
        group = ctas.shape[1]
        rows = (shape.height if is_left else shape.width) // group
        is_depth_inner = not shape.transposes[0 if is_left else 1]
        kind = shape.left if is_left else shape.right
        size = max(1, shape.element_bits // 8)
        places = MatrixPlaces.blackwell(np.repeat((self.left if is_left else self.right)[chosen], group))
        addresses = places.addresses(rows, ROW_BYTES // size, size, is_depth_inner=is_depth_inner)
        threads = np.repeat(self.threads[chosen], group)
        issue = Issue(self.wave, self.form.instruction, threads, self.issued)
        raw = read_tile(issue, addresses, size, ctas.reshape(-1))
        if not is_depth_inner and is_narrow(kind):
            values = self._numbers(raw.swapaxes(1, 2), kind).swapaxes(1, 2)
        else:
            values = self._numbers(raw, kind)
        return values.reshape(len(ctas), group, rows, shape.depth)

    def _tensor_operand(self, ctas: Array, addresses: Array) -> Array:
        """Return the left operand with the axes product, CTA, row, depth, from cells of tensor memory."""
        lanes = _lanes(self.height)[:, None] + _part(addresses >> LANE_SHIFT)
        columns = np.arange(ROW_BYTES // _CELL_BYTES) + _part(addresses & COLUMN_MASK)
        cells = self.wave.tensor.cells[self._index(ctas, lanes, columns)]
        size = max(1, self.shape.element_bits // 8)
        raw = np.ascontiguousarray(cells).view(f"u{size}")
        return self._numbers(raw, self.shape.left)

    def _numbers(self, raw: Array, kind: str) -> Array:
        if not is_narrow(kind):
            return elements(raw, kind).astype(np.float64)
        return unpacked(raw, kind) if self.shape.element_bits == 4 else unpadded(raw, kind)

    def _index(self, ctas: Array, lanes: Array, columns: Array) -> tuple[Array, Array, Array]:
        """Return the index of cells; lanes and columns broadcast with the axes product, CTA, row, column."""
        tensor = self.wave.tensor
        return tensor.index(self.form.instruction, int(self.threads[0]), ctas[:, :, None, None], lanes, columns)

    # --- scales ---

    def _scaled_product(self, chosen: Array, ctas: Array, left: Array, right: Array) -> Array:
        """Return the product of operands times their scales.

        Each quarter of the lanes reads the scales of both operands from its own lanes.
        """
        shape, count = self.shape, self.form.scales_of_row
        each = shape.depth // count
        first, second = (addresses[chosen] for addresses in self.scales)
        row = np.arange(self.height)[None, :]
        cells = self._scale_cells(ctas, first, row)
        left = left * np.repeat(_scales(cells, shape.scale_ids[0], count, shape.scale_kind)[:, :, 0], each, axis=-1)
        column = np.arange(shape.width)[None, :] % WARP + np.arange(QUARTERS)[:, None] * WARP
        cells = self._scale_cells(ctas, second, column)
        scales_right = _scales(cells, shape.scale_ids[1], count, shape.scale_kind)
        right = right[:, :, None] * np.repeat(scales_right, each, axis=-1)
        quarters = left.reshape(*left.shape[:2], QUARTERS, WARP, shape.depth)
        return np.matmul(quarters, right.swapaxes(-1, -2)).reshape(*left.shape[:3], shape.width)

    def _scale_cells(self, ctas: Array, addresses: Array, lanes: Array) -> Array:
        """Return the cells with scales of rows, 32 to a column, with the axes product, CTA, those of `lanes`."""
        columns = np.arange(lanes.shape[-1]) // WARP + _part(addresses & COLUMN_MASK)
        return self.wave.tensor.cells[self._index(ctas, lanes, columns)]

    # --- sums ---

    def _add(self, chosen: Array, ctas: Array, total: Array) -> None:
        """Add products to the sums, or replace these."""
        shape, targets = self.shape, self.targets[chosen]
        lanes, columns = sum_places(shape.height, shape.width, ctas.shape[1])
        lanes, columns = lanes + _part(targets >> LANE_SHIFT), columns + _part(targets & COLUMN_MASK)
        index = self._index(ctas, lanes, columns)
        old = self.wave.tensor.cells[index]
        sums = np.ldexp(_from_cells(old, shape.out), -self.form.shift)
        new = _to_cells(total + np.where(_part(self.keeps[chosen]), sums, 0), shape)
        if self.disabled is not None:
            new = np.where(self._is_disabled(chosen, lanes), old, new)
        self.wave.tensor.write(self.form.instruction, int(self.threads[0]), index, new)

    def _is_disabled(self, chosen: Array, lanes: Array) -> Array:
        """Return True for the lanes whose sums stay as they are, with the axes product, CTA, row, column."""
        assert self.disabled is not None
        words = self.disabled[chosen].reshape(-1, self.ctas.shape[1], QUARTERS)
        bits = (words[..., None] >> np.arange(WARP, dtype=np.uint32) & np.uint32(1)).astype(np.bool_)
        flat = bits.reshape(*words.shape[:2], LANES)
        product, member = np.ix_(range(flat.shape[0]), range(flat.shape[1]))
        return flat[product[..., None, None], member[..., None, None], lanes]


def _part(values: Array) -> Array:
    """Return one value for each product, to broadcast with the axes product, CTA, row, column."""
    return values[:, None, None, None]


def _lanes(height: int) -> Array:
    """Return the lane of each row of a CTA.  64 rows lie in the first 16 lanes of each quarter."""
    row = np.arange(height)
    return row if height == LANES else row // 16 * WARP + row % 16


def sum_places(height: int, width: int, group: int) -> tuple[Array, Array]:
    """Return lane and column of each element of a CTA's sums; both broadcast with the axes row and column.

    Args:
        height: M, of all CTAs.
        width: N.
        group: the CTAs that take part.
    """
    column = np.arange(width)[None, :]
    if group == 2 and height == LANES:  # the second half of the columns lies in the other lanes
        half = width // 2
        return np.arange(64)[:, None] + 64 * (column >= half), column % half
    return _lanes(height // group)[:, None], column


def _scales(cells: Array, first: int, count: int, kind: str) -> Array:
    """Return the scales that begin at a byte of cells, along one more axis."""
    shifts = (8 * (first + np.arange(count))).astype(np.uint32)
    return scales_of((cells[..., None] >> shifts).astype(np.uint8), kind)


def _from_cells(cells: Array, kind: str) -> Array:
    match kind:
        case "f32":
            return cells.view(np.float32).astype(np.float64)
        case "f16":
            return cells.astype(np.uint16).view(np.float16).astype(np.float64)
        case _:
            return cells.view(np.int32).astype(np.float64)


def _to_cells(total: Array, shape: ProductShape) -> Array:
    match shape.out:
        case "f32":
            return total.astype(np.float32).view(np.uint32)
        case "f16":
            return total.astype(np.float32).astype(np.float16).view(np.uint16).astype(np.uint32)
        case _:
            # Sums of integers are exact in float64.
            whole = np.clip(total, -(1 << 31), (1 << 31) - 1) if shape.saturates else total
            return whole.astype(np.int64).astype(np.uint32)
