"""The stack at fault among those that faulthandler prints."""

from harness.workers.supervision import stacks


def stack(*frames: str) -> str:
    return "\n".join(["Thread 0x00007f0000000000 (most recent call first):", *(f"  File {frame}" for frame in frames)])


OURS = f'"{stacks.HARNESS}ops/execute.py", line 5 in _judged'


def test_the_stack_at_fault_starts_at_the_librarys_innermost_frame() -> None:
    pool = stack('"/lib/monitor.py", line 1 in watch')
    ours = stack(f'"{stacks.STANDARD[0]}threading.py", line 2 in wait', '"/lib/norm.py", line 3 in norm', OURS)
    (inner, *_) = stacks.at_fault(stacks.parse(f"{pool}\n{ours}"))
    assert (inner.function, str(inner.source)) == ("norm", "norm.py:3")
    assert stacks.at_fault(stacks.parse(stack(OURS))) == ()
    assert stacks.at_fault(stacks.parse(pool))[0].function == "watch"


def test_samples_of_a_loop_have_its_function_in_common() -> None:
    samples = [
        stacks.at_fault(stacks.parse(stack(*inner, f'"/lib/norm.py", line {line} in norm', OURS)))
        for line, inner in ((3, ['"/lib/a.py", line 1 in a']), (4, ['"/lib/b.py", line 1 in b']), (3, []))
    ]
    shared = stacks.common(samples)
    assert shared is not None
    assert shared.function == "norm"
    assert stacks.common([*samples, ()]) is None
