"""Suites as pytest tests: `pytest suites -m blackwell` searches each op of each suite on each device.

Every pytest run on a machine with the harness imports this module, also in projects that have no suites.  So it imports
next to nothing, prints nothing, and touches no test of others.  `items` has the tests, and is imported with the first
suite.
"""

import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from harness import __version__, catalogue
from harness.model.device import DeviceProfile
from harness.model.engine_traits import VIRTUAL
from harness.pytest_plugin.plugin_options import (
    PARTS,
    RAN_ON,
    SEED_GIVEN,
    SETTINGS,
    SUITES,
    add_options,
    device_of,
    devices_for,
    is_given,
    may_use_gpus,
    names_suites,
)
from harness.settings import Settings
from harness.suite_files import REGRESSIONS, is_suite, may_be_replayed
from harness.wording import counted, visible

WATCH = "HARNESS_WATCH"
"""The variable of a process under `harness run`; `harness.watched.watch_records` takes longer to import."""
SEED, SEED_CHOSEN = "harness_seed", "harness_seed_chosen"
"""In `workerinput` of pytest-xdist."""
LAST_SEED = "kernel-harness/seed"
"""The key in pytest's cache."""
ANNOUNCED = pytest.StashKey[bool]()
"""True once the seed has been printed, or if it is to be printed with pytest's header."""


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before pytest captures output
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Start pytest again under `harness run`, if `--harness-run` is given and it does not run there."""
    options = early_config.known_args_namespace
    if options.harness_run and WATCH not in os.environ:
        from harness.pytest_plugin import watched_run  # noqa: PLC0415 - rarely needed

        watched_run.start_again(options, tuple(map(str, early_config.invocation_params.args)))
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Register a mark for each device, and choose one seed for all processes of pytest-xdist."""
    config.stash[SETTINGS] = Settings.from_environment(os.environ)
    config.stash[ANNOUNCED] = is_given(config) or names_suites(config)
    # Marks are there in every project: its own tests may carry them, and --strict-markers is common.
    for mark in sorted({mark for device in catalogue.devices() for mark in catalogue.marks(device)}):
        config.addinivalue_line("markers", f"{mark}: kernel-harness: tests on such a GPU, virtual or hardware")
    if _writes_report(config):
        from harness.pytest_plugin import shard_reports  # noqa: PLC0415 - slow, and rarely needed

        shard_reports.begin(config)
    devices_for(config)  # reports a wrong option before tests are collected
    if config.option.harness_sanitizer and config.option.harness_engine == VIRTUAL.name:
        raise pytest.UsageError("--harness-sanitizer watches kernels on a real GPU: add --harness-engine cuda")
    worker_input: dict[str, Any] = getattr(config, "workerinput", {})
    config.stash[SEED_GIVEN] = worker_input.get(SEED_CHOSEN, config.option.harness_seed is not None)
    if config.option.harness_seed is None:
        config.option.harness_seed = getattr(config, "workerinput", {}).get(SEED, _seed_to_draw_from(config))


def _seed_to_draw_from(config: pytest.Config) -> int:
    """Return the seed of the run before if what failed there runs again, or else a random one."""
    cache = getattr(config, "cache", None)
    runs_failed = any(config.getoption(name, default=False) for name in ("lf", "failedfirst", "stepwise"))
    seed = cache.get(LAST_SEED, None) if cache is not None and runs_failed else None
    return seed if isinstance(seed, int) else secrets.randbelow(2**32)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """`-n auto` is one worker for each GPU if suites run on hardware; otherwise pytest-xdist decides."""
    if not may_use_gpus(config):
        return None
    from harness.pytest_plugin import gpu_workers  # noqa: PLC0415 - slow, and only for runs with suites

    return gpu_workers.count() if gpu_workers.uses_gpus(config) else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config) -> object | None:
    """On hardware GPUs each worker gets tests that follow one another, unless `--dist` says otherwise."""
    if config.getoption("dist") != "load" or not may_use_gpus(config):
        return None
    from harness.pytest_plugin import gpu_workers  # noqa: PLC0415 - as above

    if not gpu_workers.uses_gpus(config):
        return None
    from harness.pytest_plugin.distribution import InParts  # noqa: PLC0415 - it needs pytest-xdist

    return InParts(config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send each worker of pytest-xdist the seed, and the number of parts in which the tests are shared."""
    node.workerinput[SEED] = node.config.option.harness_seed
    node.workerinput[SEED_CHOSEN] = node.config.stash[SEED_GIVEN]
    node.workerinput[PARTS] = 0
    if may_use_gpus(node.config):
        from harness.pytest_plugin import gpu_workers  # noqa: PLC0415 - as above

        if gpu_workers.uses_gpus(node.config):
            parts = {"load": node.workerinput["workercount"], "each": 1}
            node.workerinput[PARTS] = parts.get(node.config.getoption("dist"), 0)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Return the line that repeats this run, if the user has asked for suites."""
    return _announcement(config) if config.stash[ANNOUNCED] else None


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> str | None:
    """Return that line after the collection, if it found suites that nobody has asked for by name."""
    if config.stash[ANNOUNCED] or config.get_verbosity() < 0 or not any(map(device_of, items)):
        return None
    config.stash[ANNOUNCED] = True
    return _announcement(config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print where cases ran, and why some could not be checked."""
    stats: dict[str, list[pytest.TestReport]] = terminalreporter.stats
    ran = [report.user_properties for kind in ("passed", "failed") for report in stats.get(kind, [])]
    if not any(name == RAN_ON for properties in ran for name, _ in properties):
        return
    from harness.pytest_plugin import run_summary  # noqa: PLC0415 - as above

    if (cache := getattr(config, "cache", None)) is not None:
        cache.set(LAST_SEED, config.option.harness_seed)
    reasons = [str(report.longrepr[2]) for report in stats.get("skipped", []) if isinstance(report.longrepr, tuple)]
    skipped = [reason.removeprefix("Skipped: ") for reason in reasons]
    terminalreporter.section("kernel-harness: where cases ran")
    if not config.stash[ANNOUNCED]:  # with pytest-xdist this process collects nothing
        terminalreporter.write_line(_announcement(config))
    for line in run_summary.lines(ran, skipped):
        terminalreporter.write_line(visible(line))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect replay files in `suites/regressions`, and suite files in `suites` or named on the command line."""
    in_suites = SUITES in file_path.parts[:-1]
    is_named = parent.session.isinitpath(file_path)
    may_be_regression = file_path.suffix == ".json" and in_suites and REGRESSIONS in file_path.parts[:-1]
    is_regression = may_be_regression and (is_named or may_be_replayed(file_path))
    may_be_suite = file_path.suffix == ".py" and (in_suites or is_named)
    if not is_regression and not (may_be_suite and is_suite(file_path)):
        return None
    from harness.pytest_plugin import items  # noqa: PLC0415 - takes half a second, and only for runs with suites

    collector = items.RegressionFile if is_regression else items.SuiteFile
    return collector.from_parent(parent, path=file_path)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: Any) -> list[pytest.Item] | None:
    """Collect what `harness.kernel_test` decorates, as a test for each device."""
    loaded = sys.modules.get("harness.kernel_tests")
    if loaded is None or not isinstance(obj, loaded.KernelTest):
        return None
    if not isinstance(collector, pytest.Module):
        raise collector.CollectError(f"{name} is a kernel test in a class: move it to the top of its file")
    if name != obj.name or not collector.funcnamefilter(name):
        return []
    from harness.pytest_plugin import kernel_test_items  # noqa: PLC0415 - as above

    return list(kernel_test_items.kernel_tests_in(collector, obj))


@pytest.fixture
def check_kernel(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Run one case of a kernel test: `check_kernel(test_softmax, T=3, D=64, device="b200")`."""
    from harness.pytest_plugin import kernel_test_items  # noqa: PLC0415 - as above

    def check(test: Any, *, device: str | None = None, **sizes: Any) -> None:
        kernel_test_items.check_case(request, test, device, sizes)

    return check


@pytest.hookimpl(trylast=True)  # shards share what -m and -k have left
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run regressions first: they are quick, and known.  On hardware GPUs the rest runs library by library.

    The tests of a library run device by device.

    The tests of others stay where they are.
    """
    if not any(map(device_of, items)):
        return
    from harness.pytest_plugin import gpu_workers, shard_reports  # noqa: PLC0415 - as above

    _end_with_others(config)
    devices = devices_for(config) if gpu_workers.uses_gpus(config) else ()
    places = [number for number, item in enumerate(items) if device_of(item)]
    found = list(map(items.__getitem__, places))
    libraries = list(dict.fromkeys(map(_library, found))) if devices else []
    ours = sorted(
        found,
        key=lambda item: (
            not _is_regression(item),
            libraries.index(_library(item)) if libraries else 0,
            _rank(item, devices),
        ),
    )
    for place, item in zip(places, ours, strict=True):
        items[place] = item
    searches = [item for item in ours if not _is_regression(item)]
    shard_reports.keep_share(config, items, searches, [item for item in ours if _is_regression(item)])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the report of `--harness-json`, after pytest-xdist's workers have ended."""
    if _writes_report(session.config):
        from harness.pytest_plugin import shard_reports  # noqa: PLC0415 - as above

        shard_reports.end(session.config)


def _writes_report(config: pytest.Config) -> bool:
    """Return True if there are options of a divided run, and this process is no worker of pytest-xdist."""
    is_worker = hasattr(config, "workerinput")
    return not is_worker and bool(config.option.harness_json or config.option.harness_shard)


def _end_with_others(config: pytest.Config) -> None:
    """Let SIGTERM end the run as Ctrl-C does, and the end of pytest-xdist's controller its workers.

    `timeout` and CI systems send SIGTERM: pytest prints its summary, and no process is left.  Handlers of others stay.
    pytest-xdist alone gives a worker 15 s to end, and a worker that holds a GPU fails the next command.
    """
    if hasattr(config, "workerinput"):
        from harness.workers.supervision import linux  # noqa: PLC0415 - as above

        linux.die_with(os.getppid())
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        config.add_cleanup(_end_at_once_by_sigterm)


def _end_at_once_by_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _is_regression(item: pytest.Item) -> bool:
    return REGRESSIONS in item.path.parts and device_of(item) is not None


def _library(item: pytest.Item) -> frozenset[object]:
    """Return what the item's op requires: the searches of one library share their processes."""
    return frozenset(getattr(getattr(item, "op", None), "requires", ()))


def _rank(item: pytest.Item, devices: tuple[DeviceProfile, ...]) -> int:
    """Return the position of the item's device; -1 for a device that is not listed."""
    device = device_of(item)
    return devices.index(device) if device in devices else -1


def _announcement(config: pytest.Config) -> str:
    option = config.option
    cases = counted(option.harness_cases, "case")
    return f"kernel-harness: {__version__}, {cases} each, --harness-seed {option.harness_seed}"
