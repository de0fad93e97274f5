"""Checks every answer of tests/check_answers, right and wrong ones, and prints how each is judged.

    python -m ci.check_answers [NAME...] [--checks N] [--folder FOLDER]

Each answer is checked with each seed from 1 to N.  The exit status is 1 if an answer is misjudged, or a flaw has a name
other than the one in `NAMED`.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import harness
from harness.checks.check_verdict import CheckVerdict, Ruling
from harness.model.flaw_kind import FlawKind

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "check_answers"
PROBLEM, RIGHT = "_problem", "_right"
NAMED: Mapping[str, FlawKind] = {
    "gelu_constant": FlawKind.CONSTANT,
    "log_softmax_torch": FlawKind.NO_KERNEL,
    "matmul_no_mask": FlawKind.OUT_OF_BOUNDS,
    "mse_loss_race": FlawKind.RACE,
    "mse_loss_unwritten": FlawKind.UNINITIALISED,
    "relu_in_place": FlawKind.INPUT_CHANGED,
    "relu_uninitialised": FlawKind.UNINITIALISED,
    "relu_zeros": FlawKind.ZEROS,
    "softmax_copied": FlawKind.COPIED,
    "softmax_reference": FlawKind.REFERENCE_CALLED,
    "sum_dim_uninitialised": FlawKind.UNINITIALISED,
    "swish_cached": FlawKind.REPEATED,
    "swish_cached_memory": FlawKind.REPEATED,
}
"""Wrong answers whose flaw must have this name; the others may be wrong by any name."""


ALLOWED: Mapping[str, tuple[str, ...]] = {"conv_swish": ("convolution",)}
"""What torch may do in the answers to a problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFile:
    """One answer to a problem."""

    path: Path
    problem: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def allows(self) -> tuple[str, ...]:
        """The operators of torch that may do any part of the work."""
        return ALLOWED.get(self.problem.stem.removesuffix(PROBLEM), ())

    @property
    def is_right(self) -> bool:
        return self.name.endswith(RIGHT)

    def is_judged_by(self, verdict: CheckVerdict) -> bool:
        """Return True if the verdict is that of the answer, and names its flaw."""
        if self.is_right:
            return verdict.ruling is Ruling.RIGHT
        named = NAMED.get(self.name)
        return verdict.ruling is Ruling.WRONG and (named is None or named in {flaw.kind for flaw in verdict.flaws})


def answer_files(names: Sequence[str] = (), folder: Path = FOLDER) -> Iterator[AnswerFile]:
    """Yield the answers, or those of these names."""
    problems = {path.stem.removesuffix(PROBLEM): path for path in folder.glob(f"*{PROBLEM}.py")}
    for path in sorted(folder.glob("*.py")):
        if path.stem.endswith(PROBLEM) or (names and path.stem not in names):
            continue
        of_problem = max((name for name in problems if path.stem.startswith(f"{name}_")), key=len)
        yield AnswerFile(path=path, problem=problems[of_problem])


def main() -> int:
    """Check them all with one checker."""
    parser = argparse.ArgumentParser(prog="check_answers", description="check right and wrong answers")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these answers")
    parser.add_argument("--checks", type=int, default=1, metavar="N", help="with each seed from 1 to N (default: 1)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of problems and answers (default: %(default)s)")
    given = parser.parse_args()
    seeds = range(1, max(given.checks, 1) + 1)
    misjudged: list[str] = []
    with harness.Checker() as checker:
        for answer in answer_files(given.names, given.folder):
            begun = time.monotonic()
            verdicts = [checker.check(answer.path, answer.problem, seed=seed, allows=answer.allows) for seed in seeds]
            wrongly = [verdict for verdict in verdicts if not answer.is_judged_by(verdict)]
            misjudged += [f"{answer.name} (seed {verdict.seed})" for verdict in wrongly]
            shown = (wrongly or verdicts)[0]
            flaws = ", ".join(dict.fromkeys(flaw.kind for flaw in shown.flaws)) or shown.reason
            mark = f"MISJUDGED {len(wrongly)} of {len(verdicts)}: " if wrongly else ""
            print(f"{time.monotonic() - begun:6.1f} s  {mark}{answer.name}: {shown.ruling}  {flaws}", flush=True)
    print(f"misjudged: {', '.join(misjudged) or 'none'}")
    return bool(misjudged)


if __name__ == "__main__":
    sys.exit(main())
