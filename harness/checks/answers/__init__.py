"""Answers to a task: a candidate beside its reference, called by the op of a generated suite, in worker processes."""
