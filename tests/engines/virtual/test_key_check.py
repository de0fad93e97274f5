"""Which arguments of a key are needless, and which cases share an entry of an autotuner's cache."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from harness.engines.triton.key_survey import SurveyedCall
from harness.engines.virtual.key_check import (
    FEW,
    IN_A_ROW,
    LEAST_TOLD,
    Candidate,
    legal_neighbours,
    may_be_needless,
    needless,
    sharing,
    sweep,
    telling,
)
from harness.model.case import Case, DType
from harness.model.op import Op
from harness.model.tuning import KeySweep
from harness.suite import tensor, tokens, width
from tests.search.fakes import DEVICE

SIZES = (*range(1, 13), 16, 32, 64)


OP = Op(
    name="made_up",
    suite="suites/made_up.py",
    call=lambda x: x,
    reference=lambda x: x,
    dims={"T": tokens(64), "D": width(64)},
    inputs={"x": tensor("T", "D")},
    options={"flag": (False, True)},
)
CASE = Case(op=OP.id, dims={"T": 20, "D": 8}, dtype=DType.FP32, device=DEVICE, options={"flag": False})


@dataclass(frozen=True)
class Config:
    BLOCK: int
    num_stages: int = 1
    kwargs: dict[str, int] = field(default_factory=dict[str, int])


def call(
    key: dict[str, str],
    *,
    code: tuple[object, ...] = (),
    unused: frozenset[str] = frozenset(),
    usable: tuple[int, ...] = (16,),
) -> SurveyedCall:
    return SurveyedCall(
        kernel="k",
        key=key,
        types=("torch.float32",),
        settings=key,
        code=(*code, usable),
        unused=unused,
        usable=tuple(map(Config, usable)),
    )


def found(calls: dict[int, SurveyedCall], buckets: tuple[str, ...] = ()) -> list[KeySweep]:
    return list(needless("T", [(size, {"k": one}) for size, one in calls.items()], buckets))


def test_an_argument_that_is_new_for_each_size_is_needless() -> None:
    (one,) = found({size: call({"T": str(size), "D": "8"}) for size in SIZES})
    assert (one.argument, one.tunings, one.needed, one.is_unused) == ("T", len(SIZES), 1, False)


def test_a_class_of_sizes_is_not_needless() -> None:
    assert found({size: call({"T": str(size // 8)}) for size in SIZES}) == []


def test_a_class_of_sizes_that_the_code_does_not_use_is_needless() -> None:
    calls = {size: call({"NB": str(size // 32)}, unused=frozenset({"NB"})) for size in SIZES}
    (one,) = found(calls)
    assert (one.argument, one.tunings, one.needed, one.is_unused) == ("NB", 3, 1, True)
    assert found(calls, ("NB",)) == []
    also_in_code = {size: replace(one, code=(("BS", size),)) for size, one in calls.items()}
    assert [(one.tunings, one.needed) for one in found(also_in_code)] == [(3, 1)]


def test_an_argument_that_changes_the_code_or_the_configs_is_not_needless() -> None:
    assert found({size: call({"T": str(size)}, code=(("T", size),)) for size in SIZES}) == []
    assert found({size: call({"T": str(size)}, usable=(16, size)) for size in SIZES}) == []


def test_few_sizes_in_a_row_show_too_little() -> None:
    assert found({size: call({"T": str(size)}) for size in (1, 2, 3, 8, 16, 32)}) == []


@pytest.mark.parametrize(
    "made",
    [
        lambda size: call({"T": str(size)}),
        lambda size: call({"T": str(size)}, code=(("T", size),)),
        lambda size: call({"T": str(size)}, code=(("T", size // 4),)),
        lambda size: call({"NB": str(size // 32)}, unused=frozenset({"NB"})),
        lambda size: call({"NB": str(size // 32)}, unused=frozenset({"NB"} if size > 1 else ())),
        lambda size: call({"NB": str(size.bit_length()), "D": "8"}),
        lambda size: call({"NB": str(size > 16)}, unused=frozenset({"NB"} if size > 16 else ())),
    ],
)
def test_some_sizes_of_a_sweep_tell_if_the_others_matter(made: Callable[[int], SurveyedCall]) -> None:
    calls = {size: made(size) for size in SIZES}
    assert told(calls, SIZES) is None or not found(calls)


def test_most_sizes_of_a_sweep_need_no_call_if_keys_decide() -> None:
    sizes = (1, 2, 4, 8, *range(20, 20 + IN_A_ROW), 64, 128)
    assert telling(sizes) == (1, 128, *range(20, 20 + IN_A_ROW))
    assert told({size: call({"T": str(size)}, code=(("T", size),)) for size in sizes}, sizes) == 2 + IN_A_ROW // 2 + 1
    assert told({size: call({"T": str(size // 32)}) for size in sizes}, sizes) == LEAST_TOLD
    assert told({size: call({"T": str(size)}) for size in sizes}, sizes) is None
    few = sizes[: 4 + FEW - 1]
    assert told({size: call({"T": str(size)}) for size in few}, few) == LEAST_TOLD


def told(calls: Mapping[int, SurveyedCall], sizes: Sequence[int]) -> int | None:
    """After how many calls it is certain that no argument is needless; None if it never is."""
    surveyed: dict[int, Mapping[str, SurveyedCall]] = {}
    for number, size in enumerate(telling(sizes), 1):
        surveyed[size] = {"k": calls[size]}
        if not may_be_needless(surveyed, sizes, ()):
            return number
    return None


def test_a_sweep_has_sizes_in_a_row_and_powers_of_two() -> None:
    sizes = [one.dims["T"] for one in sweep(OP, CASE, "T")]
    assert {*range(20, 20 + IN_A_ROW), 1, 2, 64, 4096} <= set(sizes)
    assert sizes == sorted(sizes)
    assert [one.dims["D"] for one in sweep(OP, CASE, "T")] == [8] * len(sizes)


def test_neighbours_differ_in_one_setting() -> None:
    def differences(other: Case) -> Iterator[str]:
        yield from (name for name in CASE.dims if other.dims[name] != CASE.dims[name])
        yield from (name for name in CASE.options if other.options[name] != CASE.options[name])

    others = legal_neighbours(OP, CASE)
    assert {tuple(differences(one)) for one in others} == {("T",), ("D",), ("flag",)}


NARROW = replace(CASE, dims={"T": 20, "D": 4})


def shared(mine: SurveyedCall, its: SurveyedCall) -> Candidate | None:
    return sharing({"k": mine}, [(NARROW, {"k": its})])


def test_a_config_that_pruning_excludes_here_may_come_from_the_cache() -> None:
    candidate = shared(call({}, usable=(32,)), call({}, usable=(16, 32)))
    assert candidate is not None
    assert (candidate.case, candidate.config, candidate.is_pruned) == (NARROW, Config(16), True)


def test_calls_of_different_keys_share_nothing() -> None:
    assert shared(call({"D": "8"}, usable=(32,)), call({"D": "4"}, usable=(16,))) is None


@pytest.mark.parametrize(("size", "shares"), [(8, False), (4, True)])
def test_calls_of_the_same_key_share_a_config_if_their_code_differs(size: int, *, shares: bool) -> None:
    candidate = shared(call({}, code=(("D", 8),)), call({}, code=(("D", size),)))
    assert (candidate is not None) == shares
    assert candidate is None or not candidate.is_pruned


def test_of_several_cases_the_smallest_shares_its_config() -> None:
    wide = replace(CASE, dims={"T": 20, "D": 16})
    others = [(one, {"k": call({}, code=(("D", one.dims["D"]),))}) for one in (wide, NARROW)]
    candidate = sharing({"k": call({}, code=(("D", 8),))}, others)
    assert candidate is not None
    assert candidate.case == NARROW
