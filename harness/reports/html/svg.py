"""Inline SVG drawings, escaped as they are written and coloured by the style sheet of the page."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.etree import ElementTree as ET

Number = float | int


@dataclass(slots=True)
class Numbers:
    """Unique ids for the elements of one page."""

    _next: Iterator[int] = field(default_factory=itertools.count)

    def name(self) -> str:
        """Return an unused id."""
        return f"g{next(self._next)}"


class Drawing:
    """One picture.  Lengths are in its own pixels; the page scales it."""

    def __init__(self, width: Number, height: Number, *, title: str, text: str, names: Numbers) -> None:
        """Make an empty picture; screen readers read `title` and `text`."""
        name = names.name()
        self.root = ET.Element(
            "svg",
            {
                "viewBox": f"0 0 {_number(width)} {_number(height)}",
                "width": _number(width),
                "height": _number(height),
                "role": "img",
                "aria-labelledby": f"{name}t {name}d",
            },
        )
        ET.SubElement(self.root, "title", {"id": f"{name}t"}).text = title
        ET.SubElement(self.root, "desc", {"id": f"{name}d"}).text = text

    def rectangle(self, box: tuple[Number, Number, Number, Number], style: str, tip: str = "") -> None:
        """Draw a rectangle; `box` is left, top, width and height."""
        x, y, width, height = box
        self._add("rect", style, tip, x=x, y=y, width=width, height=height)

    def line(self, x: Number, y: Number, to_x: Number, to_y: Number, style: str) -> None:
        self._add("line", style, "", x1=x, y1=y, x2=to_x, y2=to_y)

    def circle(self, x: Number, y: Number, radius: Number, style: str, tip: str = "") -> None:
        self._add("circle", style, tip, cx=x, cy=y, r=radius)

    def path(self, way: str, style: str, tip: str = "") -> None:
        """Draw an outline in SVG path notation."""
        path = self._add("path", style, tip)
        path.set("d", way)

    def words(self, x: Number, y: Number, text: str, style: str = "", *, anchor: str = "start") -> None:
        """Draw a line of text whose start, middle or end is at the point."""
        line = self._add("text", style, "", x=x, y=y)
        line.set("text-anchor", anchor)
        line.text = text

    def __str__(self) -> str:
        return ET.tostring(self.root, encoding="unicode")

    def _add(self, tag: str, style: str, tip: str, **numbers: Number) -> ET.Element:
        element = ET.SubElement(self.root, tag, {name: _number(value) for name, value in numbers.items()})
        if style:
            element.set("class", style)
        if tip:
            ET.SubElement(element, "title").text = tip
        return element


def _number(value: Number) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
