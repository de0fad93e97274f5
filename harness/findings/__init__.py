"""Findings as files: what a campaign writes, what `harness replay` reads."""
