"""Suites as pytest tests: `pytest suites -m blackwell` searches each op of each suite on each device.

Every run of pytest on a machine with the harness loads this module, so it imports next to nothing; what runs items is
in `harness.pytest_plugin.items`, imported when the first suite is collected.
"""

import re
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from harness import __version__
from harness.devices import catalogue
from harness.errors import UsageError
from harness.model.device import DeviceProfile
from harness.model.verdict import Severity
from harness.search import USUAL_DEVICES

CASES = 30
SUITES, REGRESSIONS = "suites", "regressions"
SEED = "harness_seed"
AUTO = "auto"
"""The engine that the machine decides: its GPUs, or the virtual one."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the harness, in a group of their own."""
    group = parser.getgroup("kernel-harness", "kernel-harness: suites of GPU kernels")
    group.addoption(
        "--harness-device", metavar="NAME,…", help=f"devices to search on (usually {USUAL_DEVICES}, and what -m names)"
    )
    group.addoption("--harness-cases", type=int, default=CASES, metavar="N", help="new cases for each op and device")
    group.addoption("--harness-seed", type=int, metavar="S", help="the same seed gives the same cases")
    group.addoption(
        "--harness-engine",
        default=AUTO,
        metavar="NAME",
        help="where cases run: virtual, cuda, cuda,virtual, module:factory of another, or auto: on this machine's GPUs "
        "or, where it has none, on the virtual one",
    )
    group.addoption(
        "--harness-sanitizer",
        metavar="TOOL",
        help="run cases under this tool of compute-sanitizer, or with checks of this sanitizer of Triton's",
    )
    group.addoption(
        "--with",
        action="append",
        default=[],
        dest="harness_with",
        metavar="SPEC",
        help="library under test; repeatable",
    )
    group.addoption("--sm", type=int, dest="harness_sm", metavar="N", help="pretend that each device has N SMs")
    group.addoption(
        "--fail-on",
        choices=tuple(Severity),
        default=Severity.WARNING,
        dest="harness_fail_on",
        help="the least severity of a finding that fails a test; what is below it is a pytest warning",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register a mark for each device, and settle on one seed for all processes of pytest-xdist."""
    for mark in sorted({mark for device in catalogue.devices() for mark in catalogue.marks(device)}):
        config.addinivalue_line("markers", f"{mark}: kernel-harness: tests on such a GPU, virtual or real")
    devices_for(config)  # what is misspelt is said before anything is collected
    if config.option.harness_sanitizer and config.option.harness_engine == "virtual":
        raise pytest.UsageError("--harness-sanitizer watches kernels on a real GPU: add --harness-engine cuda")
    if config.option.harness_seed is None:
        config.option.harness_seed = getattr(config, "workerinput", {}).get(SEED, secrets.randbelow(2**32))


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """`-n auto` is one worker for each GPU where suites run on real ones; else as pytest-xdist has it."""
    from harness.pytest_plugin import gpu_workers  # noqa: PLC0415 -- for those alone who need it

    return gpu_workers.count() if gpu_workers.is_asked_for(config) else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config) -> object | None:
    """On real GPUs a worker gets tests that follow one another, unless `--dist` says otherwise."""
    from harness.pytest_plugin import gpu_workers  # noqa: PLC0415 -- as above

    if config.getoption("dist") != "load" or not gpu_workers.is_asked_for(config):
        return None
    from harness.pytest_plugin.distribution import InParts  # noqa: PLC0415 -- needs pytest-xdist

    return InParts(config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Each worker of pytest-xdist is told the seed, and in how many parts the tests are shared."""
    from harness.pytest_plugin import gpu_workers  # noqa: PLC0415 -- as above

    node.workerinput[SEED] = node.config.option.harness_seed
    parts = {"load": node.workerinput["workercount"], "each": 1}
    node.workerinput[gpu_workers.PARTS] = (
        parts.get(node.config.getoption("dist"), 0) if gpu_workers.is_asked_for(node.config) else 0
    )


def pytest_report_header(config: pytest.Config) -> str:
    """What it takes to repeat this run."""
    option = config.option
    return f"kernel-harness: {__version__}, {option.harness_cases} cases each, --harness-seed {option.harness_seed}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Where cases ran, and why some were not judged."""
    stats: dict[str, list[pytest.TestReport]] = terminalreporter.stats
    ran = [report.user_properties for kind in ("passed", "failed") for report in stats.get(kind, [])]
    if not any(ran):
        return
    from harness.pytest_plugin import run_summary  # noqa: PLC0415 -- for those alone who ran suites

    reasons = [str(report.longrepr[2]) for report in stats.get("skipped", []) if isinstance(report.longrepr, tuple)]
    skipped = [reason.removeprefix("Skipped: ") for reason in reasons]
    if told := list(run_summary.lines(ran, skipped)):
        terminalreporter.section("kernel-harness: where cases ran")
        for line in told:
            terminalreporter.write_line(line)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Suite files in a folder `suites` or named on the command line; replay files in `suites/regressions`."""
    in_suites = SUITES in file_path.parts[:-1]
    if file_path.suffix == ".json" and in_suites and REGRESSIONS in file_path.parts[:-1]:
        from harness.pytest_plugin import items  # noqa: PLC0415 -- costs half a second, for those alone who need it

        return items.RegressionFile.from_parent(parent, path=file_path)
    if file_path.suffix == ".py" and (in_suites or parent.session.isinitpath(file_path)):
        from harness.pytest_plugin import items  # noqa: PLC0415 -- as above

        return items.SuiteFile.from_parent(parent, path=file_path) if items.is_suite(file_path) else None
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Regressions first: they are quick, and they are known.  On real GPUs, then device by device."""
    items.sort(key=lambda item: REGRESSIONS not in item.path.parts)
    if not any(map(_device_of, items)):
        return
    from harness.pytest_plugin import gpu_workers  # noqa: PLC0415 -- as above

    if gpu_workers.is_asked_for(config):
        ranks: dict[DeviceProfile | None, int] = {device: n for n, device in enumerate(devices_for(config))}
        items.sort(key=lambda item: (REGRESSIONS not in item.path.parts, ranks.get(_device_of(item), -1)))


def _device_of(item: pytest.Item) -> DeviceProfile | None:
    """The device of a suite's test; None of another."""
    device = getattr(item, "device", None)
    return device if isinstance(device, DeviceProfile) else None


def devices_for(config: pytest.Config) -> tuple[DeviceProfile, ...]:
    """The devices that options name, or the usual ones and those that `-m` cannot mean otherwise.

    Raises:
        pytest.UsageError: a device does not exist, or the SM count makes no sense.
    """
    named: str | None = config.option.harness_device
    sm_count: int | None = config.option.harness_sm
    try:
        devices = catalogue.find_all(named or USUAL_DEVICES, sm_count=sm_count)
        if named is None:
            slugs = [device.slug for device in (*devices, *_meant(config.option.markexpr, devices))]
            devices = catalogue.find_all(",".join(slugs), sm_count=sm_count)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    return devices


def _meant(expression: str, usual: Iterable[DeviceProfile]) -> Iterable[DeviceProfile]:
    """Devices of marks that the expression names and that no usual device carries: `-m rtx_5090`, `-m ada`."""
    covered = {mark for device in usual for mark in catalogue.marks(device)}
    named = set(re.findall(r"\w+", expression)) - covered
    return (device for device in catalogue.devices() if named & set(catalogue.marks(device)))
