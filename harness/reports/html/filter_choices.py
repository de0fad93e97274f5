"""The lists by which a page filters its table: the traits in which the rows differ."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Traits = Mapping[str, tuple[str, ...]]
"""By name of a trait, its values in one row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterChoice:
    """A trait that differs between findings, and its values."""

    name: str
    label: str
    values: tuple[str, ...]


def choices_of(rows: Sequence[Traits], labels: Mapping[str, str]) -> tuple[FilterChoice, ...]:
    """Return the traits in which the rows differ, each with its label."""
    return tuple(_choices(rows, labels))


def _choices(rows: Sequence[Traits], labels: Mapping[str, str]) -> Iterator[FilterChoice]:
    for name, label in labels.items():
        values = sorted({value for traits in rows for value in traits[name]})
        if any(set(traits[name]) != set(values) for traits in rows):
            yield FilterChoice(name=name, label=label, values=tuple(values))
