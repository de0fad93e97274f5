"""Settings of Hypothesis and Triton for the tests of this project."""

import os
import signal

from hypothesis import HealthCheck, settings

# Compiling a kernel takes long on a busy machine; no test may fail because of that.
settings.register_profile("harness", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("harness-ci", settings.get_profile("harness"), derandomize=True, database=None)
settings.load_profile("harness-ci" if os.environ.get("CI") else "harness")

# Triton 3.9 warns unless this is set.  1, fused multiply-adds, is what all earlier releases do.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

# A shell starts background jobs with SIGINT ignored, and child processes inherit that.  Tests of Ctrl-C need it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# `nohup` does the same with SIGHUP, which tests of a closed terminal need.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
