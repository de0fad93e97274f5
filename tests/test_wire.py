"""Values survive the wire unchanged, and invalid JSON is refused with the field's name."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.documents.files import dumps
from harness.documents.finding import CaseDocument
from harness.errors import ReplayError
from harness.model.case import ADDED, CallContext, Case, DType, GradMode
from harness.model.finding import Finding
from harness.model.host_configs import PickedConfig
from harness.model.paired_run import PairedRunRequest, RebuiltRequest
from harness.model.run import AccessSite, Completed, Ending, Measure, MemoryEvent, Overlap, Run, Source
from harness.model.verdict import Abstain, Fail, Severity, Signature, Verdict
from harness.wire import (
    from_json,
    reply_from_json,
    reply_to_json,
    request_from_json,
    request_to_json,
    to_json,
    with_device,
)
from tests.search.fakes import SIMPLEST

SITE = AccessSite(kernel="norm_bwd", launch=0, argument="dx", source=Source(file="norm.py", line=431))
EVENT = Overlap(site=SITE, same_bytes=True, cells=2, first_cells=((2, 0), (2, 1)), programs=(0, 1))


@pytest.fixture(scope="module")
def run() -> Run:
    """One run of every shape that the model has, small enough to read."""
    return Run(case=from_json(CASE, Case), engine="virtual", ending=Completed(), memory=(EVENT,), seconds={"host": 0.5})


CASE = """{"op": "suites/norm.py:norm", "dims": {"T": 3}, "dtype": "bf16", "device": {"slug": "b200", "name": "B200",
        "architecture": "blackwell", "capability": [10, 0], "sm_count": 148, "shared_bytes_per_block": 232448,
        "shared_bytes_per_sm": 233472, "l2_bytes": 1, "registers_per_sm": 65536, "max_threads_per_sm": 2048,
        "memory_bytes": 1, "sm_clock_khz": 1, "memory_clock_khz": 1, "memory_bus_bits": 1, "source": "a test"},
        "absent": ["weight"], "layouts": {"x": "offset"}, "seed": 1}"""


@settings(max_examples=50)
@given(run=st.from_type(Run))
def test_every_run_comes_back_equal(run: Run) -> None:
    again = from_json(to_json(run), Run)
    assert to_json(again) == to_json(run)  # runs themselves need not be equal to themselves: they may hold NaN


@settings(max_examples=50)
@given(run=st.from_type(Run))
def test_a_reply_is_the_run_without_its_case(run: Run) -> None:
    text = reply_to_json(run)
    assert "case" not in json.loads(text)
    again = reply_from_json(text.encode(), type(run), run.case)
    assert again.case is run.case
    assert to_json(again) == to_json(run)


@settings(max_examples=50)
@given(case=st.from_type(Case))
def test_a_request_is_the_case_without_its_device(case: Case) -> None:
    request = request_to_json(case)
    assert "device" not in json.loads(request)
    again = request_from_json(request.encode(), case.device)
    assert again.device is case.device
    assert to_json(again) == to_json(case)
    assert to_json(from_json(with_device(request, case.device), Case)) == to_json(case)


def test_fields_added_later_are_absent_at_their_default() -> None:
    before = {name for name in json.loads(to_json(SIMPLEST)) if name not in ADDED}
    assert set(json.loads(to_json(SIMPLEST))) == before
    assert SIMPLEST.digest == "aba94604"  # as before the fields existed: the ids of findings depend on it
    changed = replace(SIMPLEST, grad_mode=GradMode.NO_GRAD, frozen=("x",), environment=(("FLA_USE_TMA", "1"),))
    picked = PickedConfig(function="my_library.choice:get_config", config='{"BLOCK": 64}')
    changed = replace(changed, context=CallContext.THREAD, is_exact=True, picked=(picked,))
    assert set(json.loads(to_json(changed))) == {*before, *ADDED}
    assert set(json.loads(dumps(CaseDocument(case=changed)))["case"]) == {*before, *ADDED}
    assert set(json.loads(dumps(CaseDocument(case=SIMPLEST)))["case"]) == before
    assert from_json(to_json(changed), Case) == changed
    each = (SIMPLEST, changed, replace(SIMPLEST, frozen=("x",)), replace(SIMPLEST, grad_mode=GradMode.NO_GRAD))
    assert len({case.digest for case in (*each, replace(SIMPLEST, environment=(("A", ""),)))}) == 5


@settings(max_examples=50)
@given(request_of_pair=st.from_type(PairedRunRequest))
def test_a_request_for_a_paired_run_omits_the_device_too(request_of_pair: PairedRunRequest) -> None:
    request = request_to_json(request_of_pair)
    assert "device" not in json.loads(request)["case"]
    again = request_from_json(request.encode(), request_of_pair.case.device, PairedRunRequest)
    assert again.case.device is request_of_pair.case.device
    assert to_json(again) == to_json(request_of_pair)


@settings(max_examples=50)
@given(rebuilt=st.from_type(RebuiltRequest))
def test_a_request_for_another_build_omits_the_device_too(rebuilt: RebuiltRequest) -> None:
    request = request_to_json(rebuilt)
    assert "device" not in json.loads(request)["case"]
    assert to_json(request_from_json(request.encode(), rebuilt.case.device, RebuiltRequest)) == to_json(rebuilt)


@pytest.mark.parametrize("text", [b"[]", b"null", b'{"op": 3}', b"{"])
def test_an_invalid_request_is_refused(run: Run, text: bytes) -> None:
    with pytest.raises(ReplayError):
        request_from_json(text, run.case.device)


@pytest.mark.parametrize("text", [b"[]", b"null", b'{"engine": 3}', b"{"])
def test_an_invalid_reply_is_refused(run: Run, text: bytes) -> None:
    with pytest.raises(ReplayError):
        reply_from_json(text, Run, run.case)


def test_enums_come_back_as_their_members_not_as_strings(run: Run) -> None:
    again = from_json(to_json(run), Run)
    assert (again, repr(again)) == (run, repr(run))


@settings(max_examples=50)
@given(finding=st.from_type(Finding))
def test_every_finding_comes_back_equal(finding: Finding) -> None:
    assert to_json(from_json(to_json(finding, indent=2), Finding)) == to_json(finding)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_survive_in_standard_json(odd: float) -> None:
    text = to_json(Measure(ratio=odd, index=(), got=odd, expected=1.5))
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not standard JSON"))
    again = from_json(text, Measure)
    assert (repr(again.ratio), repr(again.got), again.expected) == (repr(odd), repr(odd), 1.5)


@pytest.mark.parametrize(
    ("value", "union"),
    [
        (Completed(), Ending),
        (EVENT, MemoryEvent),
        (Abstain(oracle="bounds", reason="no launch"), Verdict),
        (
            Fail(
                signature=Signature(oracle="values", severity=Severity.ERROR, op="a:b", kernel="", place="y"),
                message="y is wrong",
                meaning="The result is wrong.",
            ),
            Verdict,
        ),
    ],
)
def test_a_member_of_a_union_says_which_it_is(value: object, union: Any) -> None:
    text = to_json({"it": value})
    assert json.loads(text)["it"].get("type") is None  # alone, its class is known to who reads it
    assert from_json(json.dumps({**json.loads(to_json(value)), "type": type(value).__name__}), union) == value


BREAKS: list[tuple[Callable[[Any], object], str]] = [
    (lambda run: run.update(extra=1), "not a Run: unknown field extra"),
    (lambda run: run["case"].pop("dims"), "not a Run: case.dims: missing"),
    (
        lambda run: run["case"].update(dtype="fp31"),
        f'not a Run: case.dtype: expected one of {", ".join(DType)}, got "fp31"',
    ),
    (lambda run: run["case"]["dims"].update(T="3"), 'not a Run: case.dims.T: expected an integer, got "3"'),
    (lambda run: run["case"]["dims"].update(T=True), "not a Run: case.dims.T: expected an integer, got true"),
    (lambda run: run["case"].update(absent="w"), 'not a Run: case.absent: expected a list, got "w"'),
    (lambda run: run["case"].update(dims=[1]), "not a Run: case.dims: expected an object, got [1]"),
    (lambda run: run["memory"][0]["site"].update(launch=None), "memory[0].site.launch: expected an integer, got null"),
    (lambda run: run["memory"][0]["site"].update(source=[1]), "memory[0].site.source: expected an object, got [1]"),
    (lambda run: run["memory"][0].pop("type"), "not a Run: memory[0]: expected an object with 'type', got {"),
    (
        lambda run: run["ending"].update(type="Exploded"),
        "not a Run: ending: expected a 'type' among Completed, Crashed, ",
    ),
    (lambda run: run["seconds"].update(host="nan"), 'not a Run: seconds.host: expected a number, got "nan"'),
    (lambda run: run["seconds"].update(host={"float": []}), "not a Run: seconds.host: expected a number, got {"),
]


@pytest.mark.parametrize(("harm", "message"), BREAKS)
def test_a_damaged_run_is_refused_with_the_field_at_fault(
    run: Run, harm: Callable[[Any], object], message: str
) -> None:
    plain = json.loads(to_json(run))
    harm(plain)
    with pytest.raises(ReplayError) as refused:
        from_json(json.dumps(plain), Run)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not readable as JSON: Expecting value"),
        ("{", "not readable as JSON: Expecting property name"),
        ("NaN", "not readable as JSON: NaN is not JSON"),
        ("[" * 100_000, "not readable as JSON: maximum recursion depth exceeded"),
        ("9" * 9999, "not readable as JSON: Exceeds the limit"),
        ("[1]", "not a Case: expected an object, got [1]"),
        ("null", "not a Case: expected an object, got null"),
        ('"case"', 'not a Case: expected an object, got "case"'),
    ],
)
def test_invalid_json_and_other_types_are_refused(text: str, message: str) -> None:
    with pytest.raises(ReplayError) as refused:
        from_json(text, Case)
    assert message in str(refused.value)


@given(
    text=st.text()
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["op", "case", "type"]), inner),
    ).map(json.dumps)
)
def test_any_other_json_is_refused(text: str) -> None:
    with pytest.raises(ReplayError):
        from_json(text, Run)
