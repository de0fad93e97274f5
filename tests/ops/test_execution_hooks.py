"""What both engines do with what was raised."""

from dataclasses import replace

import pytest

from harness.model.run import Completed, Raised
from harness.ops.execution_hooks import blamed

pytestmark = pytest.mark.once

RAISED = Raised(kind="OutOfResources", message="shared memory", source=None, phase="forward", traceback="")


def test_what_was_raised_is_told_with_the_kernel_that_failed_and_the_number_of_its_configs() -> None:
    assert blamed(RAISED, ("product_kernel", 1)) == replace(RAISED, launch="product_kernel", config_count=1)


def test_without_a_failing_kernel_nothing_is_blamed() -> None:
    assert blamed(RAISED, None) == RAISED


def test_a_failure_that_an_autotuner_swallowed_blames_nobody_where_the_case_completes() -> None:
    assert blamed(Completed(), ("product_kernel", 4)) == Completed()
