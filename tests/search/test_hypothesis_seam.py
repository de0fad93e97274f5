"""Hypothesis draws for the harness depend on the seed alone, and draws of users are unchanged."""

import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import Phase

from harness.model.case import Case
from harness.search.hypothesis_seam import LITERALS, PROVIDER, seed_alone
from harness.search.launch_feedback import LaunchFeedback
from harness.search.strategies import Batch
from tests.search.fakes import DEVICE, OP

ROOT = Path(__file__).resolve().parents[2]
DRAWING = """
import sys

from harness.search.launch_feedback import LaunchFeedback
from harness.search.strategies import Batch
from tests.search.fakes import DEVICE, KERNEL, OP

for module in sys.argv[1:]:
    __import__(module)
feedback = LaunchFeedback(tile_sizes=frozenset({32, 64}), configs={KERNEL: 6})
for seed in range(8):
    for case in Batch(op=OP, device=DEVICE, feedback=feedback, seed=seed, size=48).draw():
        print(case.digest)
"""
ODD = f"NUMBERS = {list(range(107, 6000, 37))}\n"
"""Literals as they occur in any module."""


def literals() -> Callable[..., object]:
    return getattr(PROVIDER, LITERALS)


def test_hypothesis_still_has_the_replaced_method() -> None:
    assert callable(vars(PROVIDER).get(LITERALS)), (
        f"Hypothesis {version('hypothesis')} has no HypothesisProvider.{LITERALS}: see from what it draws constants "
        "now, and name it in harness/search/hypothesis_seam.py"
    )


def test_the_method_is_replaced_only_while_the_harness_draws() -> None:
    usual = literals()
    meanwhile: list[Callable[..., object]] = []

    def body(case: Case) -> None:
        del case
        meanwhile.append(literals())
        if len(meanwhile) > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Batch(op=OP, device=DEVICE, feedback=LaunchFeedback(), seed=7, size=8).visit(body, phases=(Phase.generate,))
    assert usual not in meanwhile
    assert literals() is usual


def test_the_method_stays_replaced_while_any_search_draws() -> None:
    usual = literals()
    with ExitStack() as second:
        with seed_alone():
            second.enter_context(seed_alone())
        assert literals() is not usual
    assert literals() is usual


def output_of(program: str, folder: Path, *arguments: str) -> list[str]:
    """Return the output lines of a fresh process with modules in `folder`."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env={"PATH": "", "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_a_seed_draws_the_same_cases_whatever_modules_are_imported(tmp_path: Path) -> None:
    (tmp_path / "odd_numbers.py").write_text(ODD, encoding="utf-8")
    alone = output_of(DRAWING, tmp_path)
    assert len(alone) > 300
    assert output_of(DRAWING, tmp_path, "odd_numbers") == alone
