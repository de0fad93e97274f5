"""The scope of values in TTIR: the slot and the type of each name in sight."""

from harness.engines.ttir.ir import Type
from harness.engines.ttir.notation import Notation


class ValueScope(Notation):
    """Notation with values: names are defined and used."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._names: dict[str, int] = {}
        """Slots by name, `%0` or `%0#1`."""
        self._types: list[Type] = []
        """Types by slot."""
        self._forward: dict[str, int] = {}
        """Slots of values that were used before their definition."""

    def _define(self, name: str, kind: Type) -> int:
        if name in self._forward:
            slot = self._names[name] = self._forward.pop(name)
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
        if name in self._forward:
            return self._forward[name]
        slot = self._names.get(name)
        if slot is None:
            slot = self._names.get(name.removesuffix("#0"))  # a single result may be written with its number
        if slot is None:  # blocks are not printed in topological order, so the definition may follow
            slot = self._forward[name] = self._define(name, Type("?"))
        return slot

    def _operand(self) -> int:
        return self._use(self._next()[1])

    def _operands_until(self, end: str) -> list[int]:
        operands: list[int] = []
        while not self._accept(end):
            operands.append(self._operand())
            self._accept(",")
        return operands

    def _operands(self) -> list[int]:
        """Read values separated by commas, as long as there are any."""
        operands: list[int] = []
        while self._peek()[0] == "value":
            operands.append(self._operand())
            self._accept(",")
        return operands
