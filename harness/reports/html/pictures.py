"""Drawings of a failure: the wrong or overlapping cells of a tensor, or accesses outside it."""

from dataclasses import dataclass
from math import inf, isfinite

from harness.model.picture import Amount, Picture, Shading, Span, Spread
from harness.reports.html.svg import Drawing, Numbers

NARROWEST_LEFT, TOP, LEGEND = 58, 22, 34
LETTER = 6.2
"""The width of a letter of a small label, at most."""
OUTLINE = 12
"""The smallest side of the outline of the cell that the message names."""
ROOM, TALL = 470, 300
"""The largest width and height of all blocks together."""
SMALLEST, LARGEST = 3, 26
"""The side of a block."""
NARROW = 4
"""With fewer columns than this, blocks are half as tall at most."""
DEGREES = ((10.0, "heat1", "1 to 10"), (1e3, "heat2", "10 to 1,000"), (inf, "heat3", "more"))
LINE_WIDTH = 520
WIDEST_LEGEND = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One picture with its caption."""

    caption: str
    svg: str


def draw(picture: Picture, names: Numbers) -> Drawn:
    """Return the picture as SVG."""
    match picture:
        case Shading():
            return _shading(picture, names)
        case Span():
            return _span(picture, names)


def named(index: tuple[int, ...]) -> str:
    """Return an index or a shape as `[2, 0]`."""
    return f"[{', '.join(map(str, index))}]"


# --- cells -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sheet:
    """The blocks and their size in pixels."""

    left: float
    """The room for the labels of rows."""
    down: int
    across: int
    height: float
    width: float

    def corner(self, row: int, column: int) -> tuple[float, float]:
        return self.left + column * self.width, TOP + row * self.height


def _sheet(spread: Spread) -> _Sheet:
    (rows, columns), (height, width) = spread.table, spread.block
    down, across = max(1, -(-rows // height)), max(1, -(-columns // width))
    wide = max(SMALLEST, min(LARGEST, ROOM / across))
    tall = max(SMALLEST, min(LARGEST if across >= NARROW else LARGEST / 2, TALL / down))
    left = max(NARROWEST_LEFT, LETTER * len(f"{rows - 1:,}") + 12)
    return _Sheet(left=left, down=down, across=across, height=tall, width=wide)


def _shading(picture: Shading, names: Numbers) -> Drawn:
    spread, sheet = picture.spread, _sheet(picture.spread)
    rows, columns = spread.table
    left, (right, bottom) = sheet.left, sheet.corner(sheet.down, sheet.across)
    caption = f"{picture.tensor} {named(spread.shape)}: {picture.caption}"
    if spread.block != (1, 1):
        caption += f"; each block is {spread.block[0]} x {spread.block[1]} cells"
    description = f"{len(spread.marks)} of {sheet.down * sheet.across} blocks have such cells; the message names "
    description += f"{named(picture.worst)}."
    drawing = Drawing(max(right + 12, WIDEST_LEGEND), bottom + LEGEND + 8, title=caption, text=description, names=names)
    drawing.rectangle((left, TOP, right - left, bottom - TOP), "sheet")
    for row, column, amount in spread.marks:
        x, y = sheet.corner(row, column)
        style = _style(picture.amount, amount)
        gap = 0.5 if min(sheet.width, sheet.height) > 2 * SMALLEST else 0.0
        tip = f"{_place(spread, row, column)}: {_amount(picture.amount, amount)}"
        drawing.rectangle((x + gap, y + gap, sheet.width - 2 * gap, sheet.height - 2 * gap), style, tip)
    if rows > 1:
        drawing.words(left - 6, TOP + 10, "row 0", "small", anchor="end")
        if bottom - TOP > 30:
            drawing.words(left - 6, bottom - 1, f"{rows - 1:,}", "small", anchor="end")
    drawing.words(left, TOP - 6, "0" if columns > 1 else "", "small")
    if columns > 1 and right - left > 30:
        drawing.words(
            right,
            TOP - 6,
            f"column {columns - 1:,}" if right - left > 90 else f"{columns - 1:,}",
            "small",
            anchor="end",
        )
    _outline(drawing, sheet, spread, picture.worst)
    _legend(drawing, bottom + 20, picture)
    return Drawn(caption=caption, svg=str(drawing))


def _style(amount: Amount, value: float) -> str:
    match amount:
        case Amount.SHARE:
            return "heat1" if value <= 1 / 3 else "heat2" if value <= 2 / 3 else "heat3"
        case Amount.TOLERANCES:
            if not isfinite(value):
                return "broken"
            return "heat0" if value <= 1 else next(style for most, style, _ in DEGREES if value <= most)


def _amount(amount: Amount, value: float) -> str:
    match amount:
        case Amount.SHARE:
            return f"{100 * value:.0f} % of the cells"
        case Amount.TOLERANCES:
            return f"{value:.3g} tolerances" if isfinite(value) else "NaN or infinite"


def _place(spread: Spread, row: int, column: int) -> str:
    (rows, columns), (height, width) = spread.table, spread.block
    down = _range("row", row * height, min(rows, (row + 1) * height) - 1)
    across = _range("column", column * width, min(columns, (column + 1) * width) - 1)
    return across if rows == 1 else f"{down}, {across}"


def _range(noun: str, first: int, last: int) -> str:
    return f"{noun} {first:,}" if first == last else f"{noun}s {first:,} to {last:,}"


def _outline(drawing: Drawing, sheet: _Sheet, spread: Spread, worst: tuple[int, ...]) -> None:
    """Outline the cell that the message names, if the tensor has it; labels and legend stay free."""
    if len(worst) != len(spread.shape) or not worst or sheet.down * sheet.across == 1:
        return
    row = 0
    for at, size in zip(worst[:-1], spread.shape[:-1], strict=True):
        row = row * size + at
    x, y = sheet.corner(row // spread.block[0], worst[-1] // spread.block[1])
    width, height = max(OUTLINE, sheet.width + 4), max(OUTLINE, sheet.height + 4)
    box = (x + (sheet.width - width) / 2, y + (sheet.height - height) / 2, width, height)
    drawing.rectangle(box, "outline", f"the message names {named(worst)}")


def _legend(drawing: Drawing, y: float, picture: Shading) -> None:
    match picture.amount:
        case Amount.SHARE if picture.spread.block == (1, 1):
            entries = [("heat3", "a cell"), ("", "(outlined: the one that the message names)")]
        case Amount.SHARE:
            entries = [("heat1", "some"), ("heat2", "many"), ("heat3", "nearly all of a block's cells")]
        case Amount.TOLERANCES:
            entries = [(style, text) for _, style, text in DEGREES]
            entries += [("broken", "NaN"), ("", "times the tolerance")]
    x = 8.0
    for style, text in entries:
        if style:
            drawing.rectangle((x, y - 9, 11, 11), style)
            x += 15
        drawing.words(x, y, text, "small")
        x += LETTER * len(text) + 12


# --- the line of memory ----------------------------------------------------------------------------------------------


def _span(picture: Span, names: Numbers) -> Drawn:
    span = picture.elements
    low, high = span.touched
    first, last = min(0, span.storage[0], low), max(span.extent, span.storage[1], high + 1)
    room = LINE_WIDTH - 40
    scale = room / max(1, last - first)

    def at(element: int) -> float:
        return 20 + (element - first) * scale

    caption = f"{picture.tensor} {named(span.shape)} in memory: {picture.caption}"
    description = (
        f"The tensor's elements lie between 0 and {span.extent - 1:,}, its storage reaches from "
        f"{span.storage[0]:,} to {span.storage[1] - 1:,}, and {_range('element', low, high)} was touched."
    )
    drawing = Drawing(LINE_WIDTH, 96, title=caption, text=description, names=names)
    whole = max(1.0, (span.storage[1] - span.storage[0]) * scale)
    drawing.rectangle((at(span.storage[0]), 30, whole, 26), "storage")
    drawing.rectangle((at(0), 30, max(1.0, span.extent * scale), 26), "tensor")
    wide = max(4.0, (high + 1 - low) * scale)
    box = (min(at(low), LINE_WIDTH - 20 - wide), 24, wide, 38)
    drawing.rectangle(box, "touched", _range("element", low, high))
    label = _range("element", low, high)
    half = LETTER * len(label) / 2
    drawing.words(min(max(at(low) + wide / 2, half), LINE_WIDTH - half), 16, label, "small", anchor="middle")
    x = 20.0
    for style, text in (
        ("tensor", f"the tensor, 0 to {span.extent - 1:,}"),
        ("storage", "its storage"),
        ("touched", "touched"),
    ):
        drawing.rectangle((x, 76, 11, 11), style)
        drawing.words(x + 15, 85, text, "small")
        x += LETTER * len(text) + 34
    return Drawn(caption=caption, svg=str(drawing))
