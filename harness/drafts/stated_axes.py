"""The axes of a function's tensors, and their legal sizes, from what its source states."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.drafts.stated_domain import AxisOf, SizeCheck, StatedDomain

NAME = re.compile(r"[A-Za-z_]\w*")
NO_NAME = re.compile(r"_+|\.\.\.")
"""A name for an axis that the source does not use."""
FREE_AXES = ("T", "D", "N", "M", "K", "R")
MOST_MULTIPLES = 4
"""How many multiples a dim may have, if its size must be one."""

Shape = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisLimits:
    """The sizes that checks allow for an axis."""

    low: int = 1
    high: int | None = None
    multiple: int = 1
    choices: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """The declaration of the dim; empty if any size is legal."""
        if self.choices or self.multiple > 1:
            multiples = tuple(self.multiple * count for count in range(1, MOST_MULTIPLES + 1))
            legal = [size for size in sorted(self.choices) or multiples if self._allows(size)]
            return f"groups({', '.join(map(str, legal))})" if legal else ""
        if self.low == 1 and self.high is None:
            return ""
        return f"Dim(low={self.low}, high={max(self.low, 64) if self.high is None else self.high})"

    def _allows(self, size: int) -> bool:
        return self.low <= size and (self.high is None or size <= self.high) and size % self.multiple == 0


class StatedAxes:
    """Names of axes for the tensors of a function, with all that is stated of their sizes."""

    def __init__(self, tensors: Sequence[str], unpacked: Sequence[tuple[str, Shape]], stated: StatedDomain) -> None:
        self._stated = stated
        self.documented = tuple(name for name in tensors if name in stated.shapes and name not in dict(unpacked))
        """The tensors whose shape is from the docstring alone."""
        self.nameless = tuple(name for name in tensors if name not in stated.shapes and name not in dict(unpacked))
        """The tensors of which at most the number of axes is stated."""
        self.shapes = _equated(_named(_merged(tensors, dict(unpacked), stated)), stated.checks)
        self.limits = dict(self._limits())
        """By axis."""

    @property
    def condition(self) -> str:
        """The source of `where`; empty if nothing relates sizes, or depends on an optional tensor."""
        return " and ".join(dict.fromkeys(text for check in self._stated.checks if (text := self._related(check))))

    @property
    def notes(self) -> Iterator[str]:
        """What was read in checks, with its line."""
        for check in self._stated.checks:
            left, right = self.axis(check.left), check.right if isinstance(check.right, int) else self.axis(check.right)
            if left is not None and right is not None and left != right:
                size = f"{left} % {check.modulus}" if check.modulus else left
                guard = f" if {check.guard} is given" if check.guard else ""
                yield f"read: {size} {check.operator} {right}{guard}, in line {check.line}"

    def axis(self, of: AxisOf) -> str | None:
        """Return the name of an axis; None if it has none."""
        tensor, number = of
        shape = self.shapes.get(tensor, ())
        extent = shape[number] if -len(shape) <= number < len(shape) else ""
        return extent if NAME.fullmatch(extent) else None

    @property
    def packs_batch_of_one(self) -> bool:
        """True if the first axis has one element whenever an optional tensor is given: sequences are packed then."""
        return any(check.guard and (check.left[1], check.right) == (0, 1) for check in self._stated.checks)

    def _limits(self) -> Iterator[tuple[str, AxisLimits]]:
        by_axis: dict[str, list[SizeCheck]] = {}
        for check in self._stated.checks:
            if not check.guard and isinstance(check.right, int) and (axis := self.axis(check.left)):
                by_axis.setdefault(axis, []).append(check)
        chosen = {self.axis(of): values for of, values in self._stated.choices.items() if isinstance(of, tuple)}
        for axis in dict.fromkeys((*by_axis, *filter(None, chosen))):
            choices = tuple(value for value in chosen.get(axis, ()) if isinstance(value, int))
            yield axis, _limits_of(by_axis.get(axis, []), choices)

    def _related(self, check: SizeCheck) -> str:
        left, right = self.axis(check.left), check.right if isinstance(check.right, int) else self.axis(check.right)
        if left is None or right is None or left == right or (_is_limit(check) and not check.guard):
            return ""
        size = f'at["{left}"]{f" % {check.modulus}" if check.modulus else ""}'
        text = f"{size} {check.operator} " + (str(right) if isinstance(right, int) else f'at["{right}"]')
        return f'(not at["{check.guard}"] or {text})' if check.guard else text


def _is_limit(check: SizeCheck) -> bool:
    """Return True for a check that the range of a dim can say."""
    if not isinstance(check.right, int):
        return False
    return (check.operator, check.right) == ("==", 0) if check.modulus else check.operator != "!="


def _limits_of(checks: Sequence[SizeCheck], choices: tuple[int, ...]) -> AxisLimits:
    low, high, multiple = 1, None, 1
    for check in checks:
        match check:
            case SizeCheck(right=int(size)) if not _is_limit(check):
                del size
            case SizeCheck(modulus=modulus) if modulus:
                multiple = max(multiple, modulus)
            case SizeCheck(operator="==", right=int(size)):
                choices = (size,)
            case SizeCheck(operator="<=" | "<" as operator, right=int(size)):
                highest = size - (operator == "<")
                high = highest if high is None else min(high, highest)
            case SizeCheck(operator=">=" | ">" as operator, right=int(size)):
                low = max(low, size + (operator == ">"))
            case _:
                pass
    return AxisLimits(low=low, high=high, multiple=multiple, choices=choices)


def _merged(tensors: Sequence[str], unpacked: Mapping[str, Shape], stated: StatedDomain) -> dict[str, Shape]:
    """Return shapes from code and docstring.  Where both name an axis, the name in the code counts everywhere."""
    documented = {name: stated.shapes[name] for name in tensors if name in stated.shapes}
    names: dict[str, str] = {}
    for tensor, shape in unpacked.items():
        if len(documented.get(tensor, ())) == len(shape):
            pairs = zip(documented[tensor], shape, strict=True)
            names |= {in_docstring: in_code for in_docstring, in_code in pairs if NAME.fullmatch(in_docstring)}
    renamed = {
        tensor: tuple(NAME.sub(lambda found: names.get(found[0], found[0]), extent) for extent in shape)
        for tensor, shape in documented.items()
    }
    ranked = {name: ("_",) * stated.ranks[name] for name in tensors if name in stated.ranks}
    return {**ranked, **renamed, **unpacked}


def _named(shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """Return the shapes with names of their own for axes that have none."""
    taken = {name for shape in shapes.values() for extent in shape for name in NAME.findall(extent)}
    free = iter([axis for axis in FREE_AXES if axis not in taken] + [f"A{number}" for number in range(100)])
    return {
        tensor: tuple(next(free) if NO_NAME.fullmatch(extent) else extent for extent in shape)
        for tensor, shape in shapes.items()
    }


def _equated(shapes: dict[str, Shape], checks: Sequence[SizeCheck]) -> dict[str, Shape]:
    """Return the shapes with one name for axes that a check finds equal."""
    for check in checks:
        if check.operator != "==" or check.modulus or check.guard or isinstance(check.right, int):
            continue
        kept, other = (_extent(shapes, of) for of in (check.left, check.right))
        if kept and other and NAME.fullmatch(kept) and NAME.fullmatch(other):
            shapes = {
                tensor: tuple(kept if extent == other else extent for extent in shape)
                for tensor, shape in shapes.items()
            }
    return shapes


def _extent(shapes: Mapping[str, Shape], of: AxisOf) -> str:
    shape = shapes.get(of[0], ())
    return shape[of[1]] if -len(shape) <= of[1] < len(shape) else ""
