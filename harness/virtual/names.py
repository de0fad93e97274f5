"""What the names of values mean: slots of a function, told apart by region, some used before they are defined."""

from harness.virtual.ir import Type
from harness.virtual.notation import Notation


class Names(Notation):
    """Notation that knows the values which are in sight."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._names: dict[str, int] = {}
        self._types: list[Type] = []
        self._ahead: dict[str, int] = {}

    def _define(self, name: str, kind: Type) -> int:
        if name in self._ahead:
            slot = self._names[name] = self._ahead.pop(name)
            self._types[slot] = kind
            return slot
        slot = len(self._types)
        self._types.append(kind)
        self._names[name] = slot
        return slot

    def _define_results(self, names: list[tuple[str, int]], kinds: tuple[Type, ...]) -> tuple[int, ...]:
        slots: list[int] = []
        remaining = iter(kinds)
        for name, count in names:
            if count == 1:
                slots.append(self._define(name, next(remaining)))
            else:
                slots += [self._define(f"{name}#{index}", next(remaining)) for index in range(count)]
        return tuple(slots)

    def _use(self, name: str) -> int:
        if name in self._ahead:
            return self._ahead[name]
        slot = self._names.get(name)
        if slot is None:
            slot = self._names.get(name.removesuffix("#0"))  # an only result by its number
        if slot is None:  # blocks are not printed in topological order: it may be defined further down
            slot = self._ahead[name] = self._define(name, Type("?"))
        return slot
