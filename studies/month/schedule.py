"""Which releases the nights of the month test, and what they should say of six historical bugs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from studies.corpus.bugs import HistoricalBug, choose, read

CORPUS = Path(__file__).parents[1] / "corpus" / "corpus.toml"
BUGS: Mapping[str, str] = {
    "fla_layernorm_overlap": "write-overlap",
    "fla_kda_recurrent_gmask": "bounds",
    "fla_conv_noncontig_dy": "float64-values",
    "fla_rotary_uninit": "unwritten",
    "liger_rope_batch": "float64-values",
    "liger_layernorm_nonpow2": "float64-values",
}
"""By bug of the corpus, the oracle that its nights ask: they have no time to shrink all other bugs."""
SCHEDULE: Mapping[str, tuple[tuple[str, int], ...]] = {
    "fla-core": (("0.6.0", 4), ("0.5.0", 6), ("0.5.1", 7), ("0.5.2", 7), ("0.6.0", 6)),
    "liger-kernel": (("0.5.4", 5), ("0.5.2", 9), ("0.5.3", 8), ("0.5.4", 8)),
}
"""By library, releases and for how many nights: a good one, an old one, and those that mend one bug after another."""
NIGHTS = 30
SETTINGS = """\
device = "rtx-pro-6000"

[night]
cases = {cases}
block = {block}
fail-on = "never"
"""
SEARCH = """
[[night.search]]
name = "{name}"
suites = {suites}
op = {ops}
with = ["{release}"]
oracle = {oracles}
"""
"""A search for each bug."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedLife:
    """The nights between which a bug should be there."""

    bug: HistoricalBug
    first: str
    """The name of the first night of a release that has it."""
    gone: str
    """The name of the first night after that with a release that has mended it."""
    gone_with: str


def name_of(night: int) -> str:
    return f"2026-01-{night + 1:02}"


def release_of(library: str, night: int) -> str:
    """Return the release of a library that a night tests, from night 0."""
    return [release for release, nights in SCHEDULE[library] for _ in range(nights)][night]


def expected_lives(names: tuple[str, ...]) -> Iterator[ExpectedLife]:
    for bug in choose(read(CORPUS), names):
        has_bug = [Version(release_of(bug.distribution, night)) <= Version(bug.last_bad) for night in range(NIGHTS)]
        first = has_bug.index(True)
        gone = has_bug.index(False, first)
        yield ExpectedLife(
            bug=bug,
            first=name_of(first),
            gone=name_of(gone),
            gone_with=f"{bug.distribution} {release_of(bug.distribution, gone)}",
        )


def settings_of(night: int, block: int, names: tuple[str, ...]) -> str:
    """Return the `harness.toml` of a night: the op of each bug has one block of cases."""
    bugs = choose(read(CORPUS), names)
    searches = list[str]()
    for bug in bugs:
        search = SEARCH.format(
            name=f"{bug.distribution} {bug.ops[0]}",
            suites=[short(bug.suite)],
            ops=list(bug.ops),
            release=f"{bug.distribution}=={release_of(bug.distribution, night)}",
            oracles=[BUGS[bug.id]],
        )
        searches.append(search.replace("'", '"'))
    return SETTINGS.format(cases=block * len(bugs), block=block) + "".join(searches)


def short(suite: str) -> str:
    """Return the name of a suite of the package: `fla:norm` for `suites/fla/norm.py`."""
    path = Path(suite)
    return f"{path.parent.name}:{path.stem}"
