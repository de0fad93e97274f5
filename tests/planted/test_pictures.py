"""The pictures of planted failures show the cells at which they happen."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness import catalogue
from harness.model.case import Case, DType
from harness.model.picture import Amount, ElementSpan, Picture, Shading, Span, Spread
from harness.search.campaign_plan import CaseBudget
from harness.search.options import Options
from harness.search.session import Session
from harness.suite import load_suite

pytestmark = pytest.mark.slow

DEVICE = catalogue.find("h200")
FILES = tuple(f"suites/planted/{name}.py" for name in ("overlapping_store", "store_into_gap", "dropped_term"))


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """One process for all tests."""
    options = Options(
        suites=FILES, ops=(), devices=(DEVICE,), budget=CaseBudget(cases=1), seed=1, processes=1, time_limit_s=60.0
    )
    with Session(options) as opened:
        yield opened


def pictures(session: Session, file: str, oracle: str, **dims: int) -> tuple[Picture, ...]:
    op = load_suite(file)[0]
    case = Case(op=op.id, dims=dims, dtype=DType.FP32, device=DEVICE)
    (fail,) = session.judge.only(oracle).examine(op, case, session.pool.run).fails
    return fail.pictures


def test_overlapping_tiles_shade_all_but_the_first_half_tile(session: Session) -> None:
    assert pictures(session, FILES[0], "write-overlap", T=40) == (
        Shading(
            tensor="y",
            caption="stored by more than one program",
            amount=Amount.SHARE,
            spread=Spread(shape=(40,), marks=tuple((0, cell, 1.0) for cell in range(8, 40))),
            worst=(8,),
        ),
    )


def test_stores_into_gaps_span_the_first_to_the_last(session: Session) -> None:
    # Rows of 4 lie 8 apart and are stored as if they lay 4 apart: rows 1, 3 and 5 land in gaps.
    assert pictures(session, FILES[1], "bounds", T=6, D=4) == (
        Span(
            tensor="y",
            caption="store, in a gap between the view's rows",
            elements=ElementSpan(shape=(6, 4), extent=44, storage=(0, 48), touched=(4, 23)),
        ),
    )


def test_unwritten_cells_are_shaded(session: Session) -> None:
    (picture,) = pictures(session, FILES[1], "unwritten", T=6, D=4)
    assert isinstance(picture, Shading)
    rows = tuple((row, column, 1.0) for row in (3, 4, 5) for column in range(4))
    assert picture.spread == Spread(shape=(6, 4), marks=rows)


def test_a_wrong_gradient_is_measured_in_tolerances(session: Session) -> None:
    (picture,) = pictures(session, FILES[2], "float64-values", T=100)
    assert isinstance(picture, Shading)
    assert replace(picture, spread=Spread(shape=(), marks=()), worst=()) == Shading(
        tensor="d:x",
        caption="further from the truth than rounding explains",
        amount=Amount.TOLERANCES,
        spread=Spread(shape=(), marks=()),
        worst=(),
    )
    amounts = {mark[1]: mark[2] for mark in picture.spread.marks}
    assert max(amounts, key=amounts.__getitem__) == picture.worst[0] // picture.spread.block[1]
    assert len(amounts) == 34
