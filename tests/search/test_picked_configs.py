"""Configs that host code picks are read from the library's tables, drawn, handed to the library, and counted."""

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import catalogue
from harness.errors import SuiteError
from harness.findings.campaign_report import report_of
from harness.model.case import Case, DType
from harness.model.host_configs import ConfigPlace, ListedConfig, PickedConfig
from harness.model.run import Completed, Run
from harness.reports.summary import picked_lines
from harness.search import moves
from harness.search.campaign_plan import CaseBudget
from harness.search.campaign_statistics import CampaignStatistics
from harness.search.failure_rules import place_of
from harness.search.launch_feedback import LaunchFeedback
from harness.search.listed_configs import with_listed_configs
from harness.search.options import Options
from harness.search.session import Session
from harness.search.sort_key import sort_key
from harness.search.strategies import Batch
from harness.suite import config_tables, listed_configs, load_suite, op, tensor, width
from harness.wire import from_json, to_json
from tests.planted.test_planted import Unwatched

ROOT = Path(__file__).parents[2]
SUITE = os.path.relpath(Path(__file__).with_name("picked_suite.py"))
LIBRARY = str(Path(__file__).with_name("tuned_library"))
H200, B200 = catalogue.find("h200"), catalogue.find("b200")
FUNCTION = "tuned_rows.choice:get_configs"
BLOCKS_OF_16, LOSES_COLUMN = '{"BLOCK": 16, "STEPS": 1}', '{"BLOCK": 32, "STEPS": 2}'
DOUBLED, NEVER_ASKED = (with_listed_configs(op, (H200, B200), (LIBRARY,)) for op in load_suite(SUITE))
SIMPLEST = Case(op=DOUBLED.id, dims={"T": 1, "N": 1}, dtype=DType.FP32, device=H200)
PICKED = PickedConfig(function=FUNCTION, config=LOSES_COLUMN, key=64, table="N=40,device_name=NVIDIA_H200.json")


TABLES = DOUBLED.host_configs[FUNCTION]
NONE_YET = LaunchFeedback()


def drawn(feedback: LaunchFeedback = NONE_YET) -> tuple[Case, ...]:
    return Batch(op=DOUBLED, device=H200, feedback=feedback, seed=1, size=200).draw()


def test_each_config_of_a_device_is_listed_once_with_all_its_places() -> None:
    listed = DOUBLED.host_configs[FUNCTION].listed
    assert listed["b200"] == ()
    assert [config.config for config in listed["h200"]] == [
        '{"BLOCK": 64, "STEPS": 1}',
        BLOCKS_OF_16,
        '{"BLOCK": 128, "STEPS": 1}',
        LOSES_COLUMN,
    ]
    wide, narrow = "N=100000,device_name=NVIDIA_H200.json", "N=40,device_name=NVIDIA_H200.json"
    assert listed["h200"][1] == ListedConfig(
        config=BLOCKS_OF_16,
        places=(
            ConfigPlace(table=wide, key=24, span=range(17, 48), settings={"N": "100000"}),
            ConfigPlace(table=narrow, key=1, span=range(1, 33), settings={"N": "40"}),
        ),
    )


def test_a_pattern_may_end_in_any_text() -> None:
    tables = config_tables("configs/N={N},device_name={device}*.json", nearest="T")
    (op,) = (with_listed_configs(replace(DOUBLED, host_configs={FUNCTION: tables}), (H200,), (LIBRARY,)),)
    assert len(op.host_configs[FUNCTION].listed["h200"]) == 3


def test_a_drawn_config_comes_with_sizes_for_which_it_is_picked() -> None:
    cases = [case for case in drawn() if case.picked]
    (picked,) = {case.picked for case in cases if case.picked[0].config == LOSES_COLUMN}
    assert picked == (PICKED,)
    assert {case.dims["N"] for case in cases if case.picked == picked} == {40}
    assert {32 < case.dims["T"] < 128 for case in cases if case.picked == picked} == {True}
    assert {case.dims["N"] % 32 for case in cases if "N=100000" in case.picked[0].table} == {100_000 % 32}


def test_a_config_that_no_case_had_is_drawn_before_others() -> None:
    others = [config for config in DOUBLED.host_configs[FUNCTION].listed["h200"] if config.config != LOSES_COLUMN]
    feedback = LaunchFeedback(picked=frozenset(("h200", config.label(FUNCTION)) for config in others))
    counts = Counter(case.picked for case in drawn(feedback))
    assert set(counts) == {(), (PICKED,)}
    run = Run(case=replace(SIMPLEST, picked=(PICKED,)), engine="virtual", ending=Completed())
    assert ("h200", PICKED.label) in (feedback | LaunchFeedback.of(run)).picked


def test_a_case_keeps_its_config_in_json_and_an_old_id_without_one() -> None:
    case = replace(SIMPLEST, picked=(PICKED,))
    assert from_json(to_json(case), Case) == case
    assert case.digest != SIMPLEST.digest
    assert '"picked":' not in to_json(SIMPLEST)
    assert f"get_configs={LOSES_COLUMN}" in str(case)


def test_a_case_in_which_the_library_picks_is_simpler() -> None:
    case = replace(SIMPLEST, picked=(PICKED,))
    assert list(moves.picked(DOUBLED, case)) == [SIMPLEST]
    assert sort_key(DOUBLED, SIMPLEST, H200.sm_count) < sort_key(DOUBLED, case, H200.sm_count)


def test_a_failure_rule_may_name_a_picked_config() -> None:
    name = f"config of {FUNCTION}"
    assert place_of(DOUBLED, SIMPLEST).settings[name] == "its own"
    assert place_of(DOUBLED, replace(SIMPLEST, picked=(PICKED,))).settings[name] == LOSES_COLUMN


@pytest.mark.parametrize(
    ("host_configs", "message"),
    [
        ({"choice": TABLES}, "the function 'choice' in host_configs: write its module and name"),
        ({"lib:pick": {"BLOCK": 16}}, "write config_tables(…) or listed_configs(…)"),
        ({"lib:pick": listed_configs(1, answer=lambda x: x)}, "a lambda as answer of lib:pick: write a function"),
        ({"lib:pick": config_tables("M={M}.json")}, "tables of lib:pick with an unknown dim or option 'M'"),
        ({"lib:pick": config_tables("N={N}.json", nearest="B*N")}, "nearest='B*N' of lib:pick with an unknown dim 'B'"),
    ],
)
def test_a_wrong_declaration_is_named(host_configs: Any, message: str) -> None:
    declare = op(dims={"N": width()}, inputs={"x": tensor("N")}, host_configs=host_configs)
    with pytest.raises(SuiteError, match=re.escape(message)):
        declare(lambda x: x).complete("suite.py")


def test_a_table_that_is_no_json_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "__init__.py").touch()
    (tmp_path / "broken" / "N=1.json").write_text("{", encoding="utf-8")
    broken = replace(DOUBLED, host_configs={"broken:pick": config_tables("N={N}.json")})
    with pytest.raises(SuiteError, match=r"N=1\.json lists configs, and is no JSON"):
        with_listed_configs(broken, (H200,), (str(tmp_path),))


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    options = Options(
        suites=(SUITE,),
        ops=load_suite(SUITE),
        devices=(H200,),
        budget=CaseBudget(cases=40),
        seed=1,
        processes=2,
        fixed_sm_count=True,
        import_paths=(LIBRARY,),
        project=Path.cwd(),
    )
    with Session(options) as opened:
        yield opened


def search(session: Session) -> CampaignStatistics:
    return session.campaign(session.options.plan, Unwatched()).run()


def test_a_wrong_listed_config_is_found_and_the_checked_ones_are_counted(session: Session) -> None:
    statistics = search(session)
    found = {case.picked for sighting in statistics.in_order() for case in sighting.cases.values()}
    assert found == {(PICKED,)}
    report = report_of(session.options, statistics, (), interrupted=False)
    assert list(picked_lines(report.op_checks)) == [
        "configs of host code: doubled 4 of 4 on h200, never_asked 0 of 2 on h200"
    ]
