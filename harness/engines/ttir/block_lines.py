"""The Python lines of each block of a kernel, so that the blocks that a launch entered tell which lines it executed.

A line of a device function stands for the lines of its calls too.  The region of a reduction or a scan belongs to the
block of its operation.  Constants have no say: the compiler moves them to the beginning of the kernel.
"""

from collections.abc import Iterator

from harness.engines.ttir.ir import Block, Module, Operation, module_fact
from harness.model.executed_lines import FileLines, ranges_of

CONTROL_FLOW = "scf."
"""The beginning of the names of operations whose regions are entered only if control flow gets there."""
WITHOUT_A_SAY = frozenset(
    {
        "arith.constant",
        "cf.br",
        "scf.condition",
        "scf.yield",
        "tt.map_elementwise.return",
        "tt.reduce.return",
        "tt.return",
        "tt.scan.return",
    }
)

Places = frozenset[tuple[str, int]]
"""Files with lines."""


class BlockLines:
    """The lines of one module, by block."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._executed: dict[bytes, tuple[FileLines, ...]] = {}

    def executed(self, entered: bytes | bytearray) -> tuple[FileLines, ...]:
        """Return the lines of the entered blocks; `entered` has a byte for each of `Module.blocks`."""
        flags = bytes(entered)
        if flags not in self._executed:
            self._executed[flags] = self._lines_of(flags)
        return self._executed[flags]

    def _lines_of(self, flags: bytes) -> tuple[FileLines, ...]:
        by_file: dict[str, set[int]] = {}
        for file, line in frozenset[tuple[str, int]]().union(
            *(places for places, is_entered in zip(places_of_blocks(self._module), flags, strict=True) if is_entered)
        ):
            by_file.setdefault(file, set()).add(line)
        return tuple(FileLines(file=file, ranges=ranges_of(lines)) for file, lines in sorted(by_file.items()))


@module_fact
def places_of_blocks(module: Module) -> tuple[Places, ...]:
    """Return the files with lines of each of `Module.blocks`."""
    by_location: dict[str, Places] = {}

    def places_of(operation: Operation) -> Places:
        location = operation.location
        if location not in by_location:
            stack = module.call_stack(location)
            by_location[location] = frozenset((source.file, source.line) for source in stack)
        return by_location[location]

    nowhere = frozenset[tuple[str, int]]()
    return tuple(nowhere.union(*map(places_of, _operations_of(block))) for block in module.blocks)


def _operations_of(block: Block) -> Iterator[Operation]:
    """Yield the operations that are executed whenever the block is entered."""
    for operation in block.operations:
        if operation.name not in WITHOUT_A_SAY:
            yield operation
        if not operation.name.startswith(CONTROL_FLOW):
            for region in operation.regions:
                for inner in region.blocks:
                    yield from _operations_of(inner)
