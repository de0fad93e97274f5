"""Which folders of suites are no tests: the planted bugs fail by design, and serve the harness's own tests."""

collect_ignore = ["planted"]
