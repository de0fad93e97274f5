"""The options of the pytest plugin, and what follows from them alone.

Every pytest run on a machine with the harness imports this module.  So it imports nothing that is slow to load.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from harness import catalogue
from harness.errors import UsageError
from harness.model.device import DeviceProfile
from harness.model.engine_traits import ENGINES
from harness.project_settings import JoinedByCommas, read_project_settings
from harness.search import USUAL_DEVICES
from harness.settings import Settings

SUITES = "suites"
"""The folder of suites."""
AUTO = "auto"
"""The value of `--harness-engine` that takes the GPUs of this machine or, without any, the virtual GPU."""
SEVERITIES = ("warning", "error")
"""The values of `harness.model.verdict.Severity`, which takes longer to import than the whole plugin."""
SETTINGS = pytest.StashKey[Settings]()
PARTS = "harness_parts"
"""In `workerinput` of pytest-xdist: the number of parts in which workers share the tests.

It is 0 if any worker may get any test.
"""
RAN_ON = "ran_on"
"""The property of a test that says where its cases ran."""
DEFAULTS = {
    "harness_run": False,
    "harness_device": None,
    "harness_cases": 30,
    "harness_seed": None,
    "harness_engine": AUTO,
    "harness_sanitizer": None,
    "harness_with": [],
    "harness_sm": None,
    "harness_shard": None,
    "harness_json": None,
    "harness_fail_on": "warning",
}
_OPTION = re.compile(r"(?<![\w-])--(?=(?:run|device|cases|seed|engine|sanitizer|with|sm|fail-on|shard|json)\b)")


def add_options(parser: pytest.Parser) -> None:
    """Add the options; all begin with `--harness-`, so that they collide with no option of a project."""
    group = parser.getgroup("kernel-harness", "kernel-harness: suites of GPU kernels")

    def add(name: str, **settings: object) -> None:
        destination = name.removeprefix("--").replace("-", "_")
        group.addoption(name, dest=destination, default=DEFAULTS[destination], **settings)

    add(
        "--harness-run",
        action="store_true",
        help="check each launch of all tests, as `harness run` does, on the one GPU of --harness-device",
    )
    add(
        "--harness-device",
        action=JoinedByCommas,
        metavar="NAME,…",
        help=f"GPUs to emulate; repeatable (default: the project's, or else {USUAL_DEVICES}, and those that -m names)",
    )
    add("--harness-cases", type=int, metavar="N", help="new cases for each op and device (default: 30)")
    add("--harness-seed", type=int, metavar="S", help="equal seeds draw equal cases (default: random)")
    add(
        "--harness-engine",
        metavar="NAME",
        help=f"where cases run: {', '.join(map(str, ENGINES))}, module:factory of another engine, or auto: on the "
        "GPUs of this machine or, without any, on the virtual GPU (default: auto)",
    )
    add(
        "--harness-sanitizer",
        metavar="TOOL",
        help="run cases under compute-sanitizer (memcheck, racecheck, …) or with checks of Triton's (gsan, …)",
    )
    add(
        "--harness-with",
        action="append",
        metavar="SPEC",
        help="library under test: a PyPI release (fla-core==0.6.0), a wheel or a folder; repeatable",
    )
    add("--harness-sm", type=int, metavar="N", help="emulate N SMs on each device")
    add(
        "--harness-shard",
        metavar="I/N",
        help="the I-th of N equal parts of the searches; auto: as the variables of GitLab CI, Buildkite, CircleCI or "
        "Slurm say",
    )
    add(
        "--harness-json",
        metavar="FILE",
        help="write a report of all searches, for harness report",
    )
    add(
        "--harness-fail-on",
        choices=SEVERITIES,
        help="the lowest severity of a finding that fails a test; a lower one is a pytest warning (default: warning)",
    )


SEED_GIVEN = pytest.StashKey[bool]()
"""True if the user has chosen the seed."""


def is_given(config: pytest.Config) -> bool:
    """Return True if the user gives any option of the harness."""
    return any(getattr(config.option, name) != default for name, default in DEFAULTS.items())


def names_suites(config: pytest.Config) -> bool:
    """Return True if pytest is asked for tests in a folder of suites."""
    return any(SUITES in Path(argument).parts for argument in config.args)


def may_use_gpus(config: pytest.Config) -> bool:
    """Return True unless the options alone already rule out hardware GPUs."""
    return config.option.harness_engine != AUTO or names_suites(config)


def devices_for(config: pytest.Config) -> tuple[DeviceProfile, ...]:
    """Return the devices that options name, or else the usual ones and those that only the marks of `-m` name.

    Raises:
        pytest.UsageError: a device does not exist, or the SM count makes no sense.
    """
    named: str | None = config.option.harness_device
    sm_count: int | None = config.option.harness_sm
    try:
        usual = read_project_settings(config.rootpath).device or USUAL_DEVICES
        devices = catalogue.find_all(named or usual, sm_count=sm_count)
        if named is None:
            slugs = [device.slug for device in (*devices, *_marked(config.option.markexpr, devices))]
            devices = catalogue.find_all(",".join(slugs), sm_count=sm_count)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    return devices


def device_of(item: pytest.Item) -> DeviceProfile | None:
    """Return the device of a test that the harness has made; None for any other test."""
    device = getattr(item, "device", None)
    return device if isinstance(device, DeviceProfile) else None


def in_pytest_options(message: str) -> str:
    """Return a message of the harness with its options as pytest takes them: `--with` becomes `--harness-with`."""
    return _OPTION.sub("--harness-", message)


def _marked(expression: str, usual: Iterable[DeviceProfile]) -> Iterable[DeviceProfile]:
    """Return the devices whose marks the expression names, if no usual device has that mark: `-m rtx_5090`."""
    covered = {mark for device in usual for mark in catalogue.marks(device)}
    named = set(re.findall(r"\w+", expression)) - covered
    return (device for device in catalogue.devices() if named & set(catalogue.marks(device)))
