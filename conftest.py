"""What every test of this project shares: how Hypothesis behaves in our own tests, and what Triton is told."""

import os

from hypothesis import HealthCheck, settings

# Compiling a kernel takes as long as it takes; whether a test passes must not depend on the machine's load.
settings.register_profile("harness", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("harness-ci", settings.get_profile("harness"), derandomize=True, database=None)
settings.load_profile("harness-ci" if os.environ.get("CI") else "harness")

# Triton 3.9 warns until it is told whether to fuse multiplications and additions: fused, as every release before it.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
