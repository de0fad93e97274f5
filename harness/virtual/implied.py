"""The result types of operations whose text names only the types of their operands."""

from harness.virtual.ir import Type

WITHOUT_RESULTS = frozenset(
    {
        "llvm.intr.assume",
        "scf.condition",
        "scf.yield",
        "tt.assert",
        "tt.atomic_store",
        "tt.descriptor_reduce",
        "tt.descriptor_scatter",
        "tt.descriptor_store",
        "tt.map_elementwise.return",
        "tt.reduce.return",
        "tt.return",
        "tt.scan.return",
        "tt.store",
    }
)


def implied_results(name: str, kinds: list[Type]) -> tuple[Type, ...]:
    """The result types of an operation whose text names only its operands' types."""
    if not kinds:
        return ()
    first, last = kinds[0], kinds[-1]
    if name in WITHOUT_RESULTS:
        return ()
    if name in {"arith.cmpi", "arith.cmpf"}:
        return (first.of("i1"),)
    if name == "tt.load" and first.pointee is not None:
        return (Type(first.pointee.element, first.shape, first.pointee.pointee),)
    return (first,) if name == "tt.addptr" else (last,)
