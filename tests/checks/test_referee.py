"""The referee's process never runs the candidate's code: no module that the referee imports can load it."""

from ci.house import module_imports


def test_the_referee_imports_nothing_that_calls_the_candidate() -> None:
    graph = module_imports()
    reached, ahead = set[str](), ["harness.checks.referee"]
    while ahead:
        for module in graph[ahead.pop()] - reached:
            reached.add(module)
            ahead.append(module)
    assert "harness.checks.reference" in reached
    assert "harness.checks.candidate_calls" not in reached
