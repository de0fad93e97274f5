"""A machine learns which shard it is from the option, or from the variables of its CI system."""

import pytest

from harness.errors import UsageError
from harness.fleet.shards import Shard, parse_shard


def test_a_shard_is_given_by_number_and_count() -> None:
    assert parse_shard("3/8", {}) == Shard(number=3, count=8)


@pytest.mark.parametrize(
    "variables",
    [
        {"CI_NODE_INDEX": "3", "CI_NODE_TOTAL": "8"},
        {"BUILDKITE_PARALLEL_JOB": "2", "BUILDKITE_PARALLEL_JOB_COUNT": "8"},
        {"CIRCLE_NODE_INDEX": "2", "CIRCLE_NODE_TOTAL": "8"},
        {"SLURM_ARRAY_TASK_ID": "12", "SLURM_ARRAY_TASK_COUNT": "8", "SLURM_ARRAY_TASK_MIN": "10"},
        {
            "SLURM_ARRAY_TASK_ID": "5",
            "SLURM_ARRAY_TASK_COUNT": "8",
            "SLURM_ARRAY_TASK_MIN": "1",
            "SLURM_ARRAY_TASK_STEP": "2",
        },
    ],
    ids=["gitlab", "buildkite", "circleci", "slurm", "slurm-step"],
)
def test_auto_reads_the_variables_of_a_ci_system(variables: dict[str, str]) -> None:
    assert parse_shard("auto", variables) == Shard(number=3, count=8)


@pytest.mark.parametrize(
    ("text", "variables", "message"),
    [
        ("auto", {}, "no CI system tells this job its number"),
        ("auto", {"CI_NODE_INDEX": "9", "CI_NODE_TOTAL": "8"}, "there is no shard 9 of 8"),
        ("auto", {"CI_NODE_INDEX": "", "CI_NODE_TOTAL": "8"}, "CI_NODE_INDEX is '', which is no number"),
        ("8/3", {}, "there is no shard 8 of 3"),
        ("3", {}, "write the number of the shard and how many there are"),
    ],
)
def test_a_shard_that_does_not_exist_is_refused(text: str, variables: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_shard(text, variables)
