"""The environment of a worker on a hardware GPU."""

import pytest

from harness.engines.cuda.emulation import use_one_connection

CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"


@pytest.mark.parametrize(("environment", "expected"), [({}, "1"), ({CONNECTIONS: "32"}, "32")])
def test_a_worker_has_one_queue_to_its_gpu_unless_the_user_chooses(environment: dict[str, str], expected: str) -> None:
    use_one_connection(environment)
    assert environment[CONNECTIONS] == expected
