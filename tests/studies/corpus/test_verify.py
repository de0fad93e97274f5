"""A bug is found in the bad release and not in the fixed one, with a planted kernel as two releases."""

import shutil
from pathlib import Path

import pytest

from harness.libraries import PYTHON_TAG
from harness.model.finding import Finding
from harness.settings import Settings
from studies.corpus.bugs import BugPattern, HistoricalBug
from studies.corpus.verify import SearchBudget, search_for_bug

KERNEL = Path(__file__).parents[3] / "suites" / "planted" / "kernels" / "out_of_bounds_store.py"
SUITE = """
from harness.suite import DType, op, tensor, tokens

@op(dims={"T": tokens(256, grows=False)}, inputs={"x": tensor("T", grad=False)}, dtypes=(DType.FP32,))
def doubled(x):
    from doubling import doubled
    return doubled(x)

@doubled.reference
def reference(x):
    return x + x
"""
BUDGET = SearchBudget(cases=40, seconds=600.0, processes=2, seed=0)
IN_FLIGHT = 2 * 2 * BUDGET.processes
"""The most cases that run before the bug shows: each process has two under way, each with a paired run."""


@pytest.fixture
def bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HistoricalBug:
    """A library whose release 1.0 stores out of bounds, and whose release 1.1 does not."""
    for version, masked in (("1.0", False), ("1.1", True)):
        package = tmp_path / "cache" / "libraries" / f"doubling-{version}-{PYTHON_TAG}" / "doubling"
        package.mkdir(parents=True)
        shutil.copy(KERNEL, package / "kernel.py")
        (package / "__init__.py").write_text(
            f"from doubling.kernel import double\n\n\ndef doubled(x):\n    return double(x, masked={masked})\n"
        )
    monkeypatch.chdir(tmp_path)
    suite = tmp_path / "doubling_suite.py"
    suite.write_text(SUITE)
    return HistoricalBug(
        id="doubling_bounds",
        what="the last tile is stored whole",
        distribution="doubling",
        last_bad="1.0",
        first_fixed="1.1",
        link="https://example.org/1",
        suite=str(suite),
        ops=("doubled",),
        shows=(BugPattern(oracle="bounds", kernel="double_kernel"),),
    )


@pytest.mark.nightly
@pytest.mark.slow
def test_a_bug_is_found_and_shrunk_and_the_fixed_release_passes(bug: HistoricalBug, tmp_path: Path) -> None:
    kept = list[Finding]()
    record = search_for_bug(bug, BUDGET, Settings(cache=tmp_path / "cache"), lambda _: None, kept.append)
    assert record.is_confirmed
    assert record.bad is not None
    assert record.bad.found is not None
    assert record.bad.found.signature.startswith("bounds: double_kernel kernel.py:")
    assert record.bad.found.smallest.dims == {"T": 1}
    # The first case that shows the bug ends the search; others in flight may have been judged before.
    assert 1 <= record.bad.found.cases <= record.bad.cases <= IN_FLIGHT
    assert not record.bad.found.smallest.is_exact
    assert [(finding.id, finding.confirmed) for finding in kept] == [(record.bad.found.finding, True)]
    assert record.fixed is not None
    assert (record.fixed.cases, record.fixed.checked, record.fixed.other_signatures) == (BUDGET.cases, BUDGET.cases, ())


@pytest.mark.slow
def test_a_release_that_cannot_be_imported_is_an_obstacle(bug: HistoricalBug, tmp_path: Path) -> None:
    broken = tmp_path / "cache" / "libraries" / f"doubling-1.0-{PYTHON_TAG}" / "doubling" / "__init__.py"
    broken.write_text("raise ImportError('doubling needs a newer Triton')\n")
    record = search_for_bug(bug, BUDGET, Settings(cache=tmp_path / "cache"), lambda _: None, lambda _: None)
    assert record.fixed is None
    assert record.bad is not None
    assert (record.bad.cases, record.bad.found) == (0, None)
    assert "doubling needs a newer Triton" in record.bad.obstacle
