"""Every right and wrong answer of tests/check_answers gets its verdict."""

from collections.abc import Generator
from pathlib import Path

import pytest

from ci.check_answers import NAMED, AnswerFile, answer_files
from harness.checks.checker import Checker
from harness.model.flaw_kind import FlawKind

pytestmark = pytest.mark.slow

ANSWERS = tuple(answer_files())
TRIED = ("max_pool", "relu", "softmax", "sum_dim", "swish", "trained_rms_norm")
"""The problems whose answers `make test` checks: values, memory, copies, caches and gradients."""


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Generator[Checker]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("answers"))
        with Checker() as checker:
            yield checker


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(answer, id=answer.name, marks=[] if answer.name.startswith(TRIED) else pytest.mark.nightly)
        for answer in ANSWERS
    ],
)
def test_the_verdict_on_an_answer_is_right(checker: Checker, answer: AnswerFile) -> None:
    verdict = checker.check(Path(answer.path), answer.problem, seed=1, allows=answer.allows)
    assert answer.is_judged_by(verdict), verdict


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", ["log_softmax_overflow", "max_dim_masked_zero"])
def test_a_short_check_has_large_values_and_negative_ones(checker: Checker, name: str, seed: int) -> None:
    (answer,) = (answer for answer in ANSWERS if answer.name == name)
    verdict = checker.check(Path(answer.path), answer.problem, cases=3, seed=seed)
    assert FlawKind.WRONG_VALUES in {flaw.kind for flaw in verdict.flaws}, verdict


def test_there_are_twenty_right_and_twenty_wrong_answers() -> None:
    right = sum(answer.is_right for answer in ANSWERS)
    assert right >= 20
    assert len(ANSWERS) - right >= 20


def test_every_named_flaw_belongs_to_an_answer() -> None:
    assert NAMED.keys() <= {answer.name for answer in ANSWERS}
