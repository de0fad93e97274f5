"""The tests that `harness.kernel_test` makes, one for each device, and single cases of the fixture `check_kernel`.

Before new cases, a kernel test runs the smallest cases that failed in earlier runs of it, from `.harness/findings`.
"""

import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import pytest

from harness import catalogue
from harness.documents.campaign import counts
from harness.errors import HarnessError, ReplayError, UsageError, unknown
from harness.findings import store
from harness.findings.recorded_cases import Recorded, read
from harness.findings.rerun import ReplayStatus, replay
from harness.kernel_tests import KernelTest
from harness.model.case import HARNESS_FOLDER, Case, DType, Scalar
from harness.model.device import DeviceProfile
from harness.model.finding import Finding
from harness.model.op import Op
from harness.project_settings import read_project_settings
from harness.pytest_plugin.items import SearchItem, searches_of
from harness.pytest_plugin.plugin_options import DEFAULTS, SEED_GIVEN, in_pytest_options
from harness.reports.finding_text import Sources, render
from harness.search import USUAL_DEVICE
from harness.search.campaign_plan import CaseBudget
from harness.search.hypothesis_profiles import HypothesisProfile, profile_of
from harness.search.options import Options
from harness.search.session import Session
from harness.search.shrinking import ShrinkLimits
from harness.suite_files import named_in_project, portable_name

MOST_REPLAYED = 5
"""How many failures of earlier runs are tried first: more would take the time of new cases."""


def kernel_tests_in(module: pytest.Module, test: KernelTest) -> Iterator[pytest.Item]:
    """Yield the test of each device.

    Raises:
        pytest.Collector.CollectError: the declaration is wrong.
    """
    try:
        op = test.complete(named_in_project(str(module.path)), portable_name(module.path))
        devices = catalogue.find_all(device_names(module.config, test), sm_count=module.config.option.harness_sm)
    except HarnessError as error:
        raise module.CollectError(in_pytest_options(str(error))) from None
    for device in devices:
        name = f"{op.name}[{device.slug}]"
        yield KernelTestItem.from_parent(module, name=name, op=op, ops=(op,), device=device, test=test)


class KernelTestItem(SearchItem):
    """New cases of one test function on one device, after those that failed before."""

    def __init__(self, *, test: KernelTest, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.test = test
        for owner in (test, test.function):
            for mark in getattr(owner, "pytestmark", ()):
                self.add_marker(getattr(pytest.mark, mark.name)(*mark.args, **mark.kwargs))

    def runtest(self) -> None:
        """Run what failed before.  If nothing shows again, search."""
        if self.profile.replays:
            self._replay_failures()
        super().runtest()

    @cached_property
    def profile(self) -> HypothesisProfile:
        return profile_of(self.test, self.test.function)

    @property
    def options(self) -> Options:
        """The options of this test alone: its file is its suite."""
        return self._own_options

    @cached_property
    def _own_options(self) -> Options:
        options = self._options((self,))
        cases: int = self.config.option.harness_cases
        if cases == DEFAULTS["harness_cases"]:
            cases = self.test.cases or self.profile.cases or cases
        is_chosen = self.config.stash[SEED_GIVEN] or not self.profile.is_deterministic
        seed = options.seed if is_chosen else zlib.crc32(self.nodeid.encode())
        return replace(
            options,
            devices=(self.device,),
            budget=CaseBudget(cases=cases),
            seed=seed,
            limits=options.limits if self.profile.shrinks else ShrinkLimits(runs=0, seconds=0.0),
            import_paths=import_paths(self.config),
        )

    def failure_text(self, findings: list[Finding], session: Session) -> str:
        """Return the failures, each with the call of its smallest case and what it noted."""
        return "\n".join(text_of(self.name, finding, session) for finding in findings)

    def _replay_failures(self) -> None:
        session = searches_of(self.config).session(self.options)
        for recorded in self._stored():
            replayed = replay(recorded, session)
            if replayed.status is ReplayStatus.SHOWN:
                self.user_properties.append(("replayed", recorded.id))
                self.add_report_section("call", "kernel-harness", f"{replayed}, before any new case")
                known = self.known_issues.among(replayed.findings)
                failing = replayed.failures(self.fail_on)
                self.keep(failing, session)
                self.check(replayed.findings, session, failing, known)

    def _stored(self) -> Iterator[Recorded]:
        """Yield the failures of earlier runs of this test on this device, the smallest first."""
        failures: list[Recorded] = []
        for file in sorted((HARNESS_FOLDER / store.FOLDER.name).glob(f"*/{store.FINDING}")):
            with suppress(ReplayError):  # harness findings names files that cannot be read
                failures += read(file)
        own = [
            failure
            for failure in failures
            if failure.case.op == self.op.id
            and failure.case.device.slug == self.device.slug
            and set(failure.case.dims) == set(self.op.dims)
        ]
        yield from sorted(own, key=lambda failure: (prod(failure.case.dims.values()), failure.id))[:MOST_REPLAYED]


def device_names(config: pytest.Config, test: KernelTest) -> str:
    """Return the devices of a test: those of the option, of its decorator, of the project, or else the usual one."""
    option: str | None = config.option.harness_device
    # By default one device, so that an ordinary test run stays short.
    return option or test.device or read_project_settings(config.rootpath).device or USUAL_DEVICE


def text_of(name: str, finding: Finding, session: Session) -> str:
    """Return a finding as printed, after its smallest case as a call and the notes of that case."""
    recorded = Recorded(case=finding.case, signature=None, preceding_case=finding.preceding_case)
    notes = replay(recorded, session).examined.run.notes
    lines = [f"Falsifying example: {called(name, finding.case)}", *(f"    {note}" for note in notes), ""]
    return "\n".join([*lines, render(finding, Sources(roots=session.sources)).plain])


def called(name: str, case: Case) -> str:
    """Return a case as a call: `test_softmax(T=3, D=1, dtype='fp32', device='h200')`."""
    sizes = {**case.dims, **case.options}
    arguments = [f"{key}={value!r}" for key, value in sizes.items()]
    arguments += [f"{key}=None" for key in case.absent]
    arguments += [f"dtype={str(case.dtype)!r}", f"device={case.device.slug!r}"]
    return f"{name.partition('[')[0]}({', '.join(arguments)})"


def import_paths(config: pytest.Config) -> tuple[str, ...]:
    """Return the folders of the project on this process's `sys.path`: pytest has put them there for its tests."""
    root = config.rootpath
    inside = (path for path in map(Path, sys.path) if path.is_absolute() and path.is_relative_to(root))
    return tuple(str(path) for path in inside if path.is_dir() and "site-packages" not in path.parts)


def check_case(request: pytest.FixtureRequest, test: KernelTest, device: str | None, sizes: dict[str, Scalar]) -> None:
    """Run one case of a kernel test, and fail the calling test if any oracle fails."""
    item = request.node
    file = test.function.__code__.co_filename
    op = test.complete(named_in_project(file), portable_name(Path(file)))
    try:
        names = device or device_names(request.config, test)
        profile = catalogue.find_all(names)[0]
        case = _case(op, profile, sizes)
    except (UsageError, ValueError) as error:
        raise pytest.UsageError(f"check_kernel({test.name}, …): {error}") from None
    name = f"{test.name}[{profile.slug}]"
    probe = KernelTestItem.from_parent(item.parent, name=name, op=op, ops=(op,), device=profile, test=test)
    session = searches_of(request.config).session(probe.options)
    replayed = replay(Recorded(case=case, signature=None), session)
    if failing := [finding for finding in replayed.findings if counts(finding, probe.fail_on)]:
        probe.keep(failing, session)
        pytest.fail(probe.failure_text(failing, session), pytrace=False)
    if replayed.status is not ReplayStatus.GONE:
        pytest.fail(str(replayed), pytrace=False)


def _case(op: Op, device: DeviceProfile, sizes: dict[str, Scalar]) -> Case:
    """Return the case of these sizes and options; those that are not given are the simplest."""
    chosen = dict(sizes)
    dtype = DType(str(chosen.pop("dtype", op.dtypes[0])))
    for name in chosen:
        if name not in {*op.dims, *op.options}:
            raise unknown("dim or option", name, (*op.dims, *op.options, "dtype"))
    dims = {name: chosen.get(name, dim.simplest) for name, dim in op.dims.items()}
    if wrong := next((name for name, size in dims.items() if type(size) is not int or size < 0), None):
        raise UsageError(f"{wrong}={dims[wrong]!r} is no size")
    options = {name: chosen[name] for name in op.options if name in chosen}
    return Case(op=op.id, dims=dims, dtype=dtype, device=device, options=options)  # pyright: ignore[reportArgumentType] - sizes are integers
