"""Checks: a candidate beside its reference, without a suite.  `harness check` and `harness.check` come from here."""
