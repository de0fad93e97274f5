"""An exception's ending names the kernel that failed."""

from dataclasses import replace

from harness.execution.execution_hooks import with_failed_kernel
from harness.model.run import Completed, Raised

RAISED = Raised(kind="OutOfResources", message="shared memory", source=None, phase="forward", traceback="")


def test_an_exception_gets_the_failed_kernel_and_its_config_count() -> None:
    assert with_failed_kernel(RAISED, ("product_kernel", 1)) == replace(RAISED, launch="product_kernel", config_count=1)


def test_an_exception_without_a_failed_kernel_is_unchanged() -> None:
    assert with_failed_kernel(RAISED, None) == RAISED


def test_a_swallowed_failure_does_not_change_a_completed_case() -> None:
    assert with_failed_kernel(Completed(), ("product_kernel", 4)) == Completed()
