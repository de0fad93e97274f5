"""Excludes the planted bugs from `pytest suites`: they fail by design and serve the harness's own tests."""

collect_ignore = ["amd_only", "planted"]
