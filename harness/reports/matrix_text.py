"""The text of `harness matrix`: a table of kernels, then what is wrong, in 80 columns."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from harness.documents.build_matrix import BuildMatrix
from harness.matrix.cells import INTEL_LANES, Cell
from harness.matrix.kernel_summaries import KernelSummary, scratch_of, summaries
from harness.oracles.resources import INTEL_SCRATCH_BYTES
from harness.wording import counted

T = TypeVar("T")
WIDTH = 80
NAME_WIDTH = 35
CONFIG_WIDTH = 30
TARGETS_ABREAST = 5
INTEL_TITLE = f"more than {INTEL_SCRATCH_BYTES} bytes in a thread of an Intel GPU (estimate: {INTEL_LANES} lanes)"
MOST_LINES = 12
"""Lines of one section; the JSON file has all."""
Section = tuple[str, list[str]]


def lines(matrix: BuildMatrix) -> Iterator[str]:
    """Yield the table, a section for each kind of trouble, and what the matrix cost."""
    kernels = summaries(matrix)
    yield from _table(kernels, len(matrix.devices))
    for title, rows in _sections(matrix, kernels):
        if rows:
            yield ""
            yield f"{title}:"
            yield from (f"  {line}" for line in rows[:MOST_LINES])
            if len(rows) > MOST_LINES:
                yield f"  … and {len(rows) - MOST_LINES} more"
    yield ""
    yield from _conclusion(matrix, kernels)


def _table(kernels: Sequence[KernelSummary], devices: int) -> Iterator[str]:
    yield f"{'kernel':<{NAME_WIDTH}} configs kept  GPUs  shared regs  local scr."
    for kernel in kernels:
        kept = len({cell.build.config for cell in kernel.cells if cell.build.is_kept})
        fitting = len(kernel.fitting_devices)
        gpus = "all" if fitting == devices else f"{fitting}/{len(kernel.by_device)}"
        scratch = max(scratch_of(cell.facts) for cell in kernel.cells)
        yield (
            f"{_cut(kernel.title, NAME_WIDTH):<{NAME_WIDTH}} {len(kernel.configs):>7} {kept:>4} {gpus:>5} "
            f"{kernel.largest('shared_bytes'):>7} {kernel.largest('registers_per_thread'):>4} "
            f"{kernel.largest('local_bytes_per_thread'):>6} {scratch:>4}"
        )
    yield "GPUs: on which every kept config fits; figures: the largest of all builds"


def _sections(matrix: BuildMatrix, kernels: Sequence[KernelSummary]) -> Iterator[Section]:
    yield "no config is left", list(_starved(kernels))
    yield "configs that run on no GPU", list(_dead(kernels))
    yield "worst overrun of each kernel", list(_overruns(kernels))
    yield "the compiler refuses", list(_failures(kernels))
    yield "cliffs of local memory between architectures (bytes a thread)", list(_cliffs(kernels))
    yield INTEL_TITLE, list(_beyond_intel(kernels))
    yield "pruning disagrees with the limits", list(_pruning(kernels))
    yield "scratch memory (bytes a program)", list(_scratch(kernels))
    yield "could not be compiled on this machine", list(_unknown(kernels))
    yield "warnings of the assembler", list(_warnings(kernels))
    yield "cases that did not complete (kernels after that are missing)", list(_unfinished(matrix))


def _starved(kernels: Iterable[KernelSummary]) -> Iterator[str]:
    for kernel in kernels:
        if devices := kernel.starved_devices:
            cell = next(cell for cell in kernel.cells if cell.device == devices[0] and cell.shortages)
            count = sum(cell.build.is_kept for cell in kernel.by_device[devices[0]])
            yield f"{kernel.title}: none of {count} on {_some(devices)}"
            yield f"  {_one_line(f'{short_config(cell.build.config)}: {cell.shortages[0].seen}')}"


def _dead(kernels: Iterable[KernelSummary]) -> Iterator[str]:
    for kernel in kernels:
        for config in kernel.dead_configs:
            yield f"{kernel.title}: {short_config(config)}"


def _overruns(kernels: Iterable[KernelSummary]) -> Iterator[str]:
    worst = [(kernel, cell) for kernel in kernels if (cell := kernel.worst) is not None]
    for kernel, cell in sorted(worst, key=lambda pair: -max(lack.overrun for lack in pair[1].shortages)):
        lack = max(cell.shortages, key=lambda each: each.overrun)
        yield f"{kernel.title}: {lack.overrun:.2f} times the limit ({short_config(cell.build.config)})"
        yield f"  {lack.seen}"


def _failures(kernels: Iterable[KernelSummary]) -> Iterator[str]:
    for kernel in kernels:
        failed = [cell for cell in kernel.cells if cell.facts.failure]
        for message, cells in _by(failed, lambda cell: f"{cell.facts.failure_source or ''} {cell.facts.failure}"):
            count = _count({cell.id for cell in cells}, "config")
            yield f"{kernel.title} on {', '.join(_targets(cells))}: {count}"
            yield f"  {_one_line(message)}"


def _cliffs(kernels: Iterable[KernelSummary]) -> Iterator[str]:
    cliffs = [(kernel, cliff) for kernel in kernels if (cliff := kernel.cliff) is not None]
    for kernel, cliff in sorted(cliffs, key=lambda pair: -pair[1].difference):
        low, high = (
            f"{cell.target} {cell.facts.local_bytes_per_thread} with {cell.facts.registers_per_thread} registers"
            for cell in (cliff.low, cliff.high)
        )
        yield f"{kernel.title} ({short_config(cliff.config)})"
        yield f"  {high}; {low}"


def _beyond_intel(kernels: Iterable[KernelSummary]) -> Iterator[str]:
    for kernel in kernels:
        cells = [cell for cell in kernel.cells if cell.exceeds_intel]
        for config, same in _by(cells, lambda cell: short_config(cell.build.config)):
            worst = max(same, key=lambda cell: cell.facts.local_bytes_per_thread)
            local = worst.facts.local_bytes_per_thread
            yield f"{kernel.title} ({config})"
            yield f"  {local * INTEL_LANES} bytes by the {local} a lane of {worst.target}"


def detail_lines(matrix: BuildMatrix) -> Iterator[str]:
    """Yield registers and local memory of every config on every target."""
    for kernel in summaries(matrix):
        targets = sorted(_targets(kernel.cells), key=lambda name: (len(name), name))
        yield ""
        yield f"{kernel.title}: registers/local bytes a thread, by config and target"
        for start in range(0, len(targets), TARGETS_ABREAST):
            abreast = targets[start : start + TARGETS_ABREAST]
            yield " " * CONFIG_WIDTH + "".join(f"{target:>10}" for target in abreast)
            for config, cells in kernel.by_config.items():
                figures = {cell.target: _registers_and_local(cell) for cell in cells}
                name = _cut(short_config(config), CONFIG_WIDTH - 1)
                yield f"{name:<{CONFIG_WIDTH}}" + "".join(f"{figures.get(target, '-'):>10}" for target in abreast)


def _registers_and_local(cell: Cell) -> str:
    if cell.facts.failure or cell.facts.unknown:
        return "fails"
    return f"{cell.facts.registers_per_thread}/{cell.facts.local_bytes_per_thread}"


def _pruning(kernels: Iterable[KernelSummary]) -> Iterator[str]:
    for kernel in kernels:
        if not kernel.is_pruned and not kernel.kept_but_impossible:
            continue
        how = "keeps" if kernel.is_pruned else "is not pruned:"
        for devices, configs in _by_devices(kernel.kept_but_impossible):
            yield f"{kernel.title} {how} {_count(configs, 'config')} that cannot run on {_some(devices)}"
        if dropped := kernel.dropped_but_possible:
            count = _count({cell.id for cell in dropped}, "config")
            yield f"{kernel.title} drops {count} that fit {_some(_devices(dropped))}"


def _scratch(kernels: Iterable[KernelSummary]) -> Iterator[str]:
    for kernel in kernels:
        needing = [cell for cell in kernel.cells if scratch_of(cell.facts)]
        for size, cells in _by(
            needing, lambda cell: f"{scratch_of(cell.facts)}, aligned to {cell.facts.scratch_align}"
        ):
            yield f"{kernel.title}: {size}, on {', '.join(_targets(cells))}"


def _unknown(kernels: Iterable[KernelSummary]) -> Iterator[str]:
    unknown = [cell for kernel in kernels for cell in kernel.cells if cell.facts.unknown]
    for why, cells in _by(unknown, lambda cell: cell.facts.unknown):
        yield f"{_count(cells, 'cell')} on {', '.join(_targets(cells))}"
        yield f"  {_one_line(why)}"


def _warnings(kernels: Iterable[KernelSummary]) -> Iterator[str]:
    counts = Counter(warning for kernel in kernels for cell in kernel.cells for warning in cell.facts.warnings)
    yield from (f"{count} cells: {_one_line(warning)}" for warning, count in counts.most_common())


def _unfinished(matrix: BuildMatrix) -> Iterator[str]:
    counts = Counter((case.op.rpartition(":")[2], case.device, case.ending) for case in matrix.unfinished)
    for ending, same in _by(list(counts), lambda key: key[2]):
        ops = list(dict.fromkeys(op for op, _, _ in same))
        devices = list(dict.fromkeys(device for _, device, _ in same))
        yield f"{sum(counts[key] for key in same)}: {_some(ops)} on {_some(devices)}"
        yield f"  {_one_line(ending)}"


def _conclusion(matrix: BuildMatrix, kernels: Sequence[KernelSummary]) -> Iterator[str]:
    cells = sum(len(kernel.cells) for kernel in kernels)
    impossible = sum(bool(cell.shortages) for kernel in kernels for cell in kernel.cells)
    targets = len({str(build.request.target) for build in matrix.builds})
    yield (
        f"{_count(kernels, 'kernel')}, {counted(sum(len(kernel.configs) for kernel in kernels), 'config')}, "
        f"{counted(len(matrix.devices), 'GPU')}: {counted(cells, 'cell')}, {impossible} cannot run"
    )
    cost = matrix.cost
    cached = len(matrix.builds) - cost.compiled
    builds = f"{counted(len(matrix.builds), 'build')} for {counted(targets, 'target')}"
    yield f"{builds}: {cost.compiled} compiled, {cached} from the cache"
    yield f"CPU time: {cost.whole_s:.0f} s, of which the compiler took {cost.compiler_s:.0f} s after its front end"


def _by(items: Iterable[T], key: Callable[[T], str]) -> Iterator[tuple[str, list[T]]]:
    groups: dict[str, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    yield from groups.items()


def _devices(cells: Iterable[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.device for cell in cells))


def _by_devices(cells: Iterable[Cell]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the configs of a kernel by the devices of their cells."""
    for devices, configs in _by(_by(cells, lambda cell: cell.build.config), lambda group: " ".join(_devices(group[1]))):
        yield devices.split(), [config for config, _ in configs]


def _targets(cells: Iterable[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.target for cell in cells))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more"


def _count(things: Iterable[object], noun: str) -> str:
    return counted(sum(1 for _ in things), noun)


def short_config(config: str) -> str:
    """Return a config without settings that most configs share."""
    usual = ("num_ctas: 1", "maxnreg: None")
    return ", ".join(part for part in config.split(", ") if part not in usual)


def _one_line(text: str) -> str:
    return _cut(" ".join(text.split()), WIDTH - 4)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
