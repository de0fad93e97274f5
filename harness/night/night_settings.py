"""What a night searches: the table `night` of a project's settings.

[night]
minutes = 120
memory = "nights"

[[night.search]]
suites = ["suites"]
releases = [".", "my-library"]
device = "h200,b200"
share = 2
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness.errors import UsageError, unknown
from harness.model.engine_traits import VIRTUAL, find_engine
from harness.model.plan import TIME_LIMIT_S
from harness.project_settings import NIGHT, ProjectSettings, SettingsTable, placed, read_table, settings_in
from harness.suite_files import named_suites

USUAL_MINUTES = 60.0
USUAL_MEMORY = "nights"
USUAL_SUITES = ("suites",)
USUAL_BLOCK, GPU_BLOCK = 48, 144
"""Cases of a chunk: enough to learn from launches, and few enough to try many ops in one night.

Processes on a hardware GPU begin slowly, under a sanitizer in half a minute.
"""


class FailOn(StrEnum):
    """What makes the exit status of a night 1."""

    NEW = "new"
    """An error that no night before had seen, or that is back."""
    ERROR = "error"
    """Any error."""
    WARNING = "warning"
    """Any finding."""
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """One search of a night: suites with one release of a library."""

    name: str
    """By which nights know it: with another name all of it is new."""
    suites: tuple[str, ...]
    op: tuple[str, ...] = ()
    """Empty: all ops."""
    libraries: tuple[str, ...] = ()
    """As `--with` takes them; a release without a version is the newest of the index."""
    device: str | None = None
    engine: str = VIRTUAL.name
    sanitizer: str = ""
    oracle: tuple[str, ...] = ()
    """Empty: all."""
    share: float = 1.0
    """Its part of the night, beside the shares of other searches."""
    time_limit_s: float = TIME_LIMIT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class NightSettings:
    """All of a night."""

    searches: tuple[SearchSettings, ...]
    minutes: float | None = None
    """None if the budget is a number of cases."""
    cases: int | None = None
    memory: Path
    known: Path
    """The list of known issues."""
    fail_on: FailOn = FailOn.NEW
    block: int | None = None
    """Cases of a chunk; None: as many as are usual for its engine."""
    seed: int = 0


NAMES = ("minutes", "cases", "memory", "known", "fail-on", "block", "seed", "search")
SEARCH_NAMES = (
    "name",
    "suites",
    "op",
    "releases",
    "with",
    "device",
    "engine",
    "sanitizer",
    "oracle",
    "share",
    "time-limit",
)


def read_night_settings(project: Path, file: Path | None = None) -> NightSettings:
    """Read the settings of a project's nights, from this file or from the project's own.

    A project without the table has a night of its folder `suites`, with its own devices and libraries.

    Raises:
        UsageError: a setting is wrong; the text names it.
    """
    table = read_table(project, file)
    values = _table_of(table, table.values.get(NIGHT, {}), NIGHT, NAMES)
    place = f"{table.place} {NIGHT}"
    places = _places(values, place, project)
    minutes, cases = _number(values, "minutes", place), _number(values, "cases", place)
    if minutes is not None and cases is not None:
        raise UsageError(f"{place}: minutes and cases: a night has one of them")
    entries = values.get("search", [{}])
    if not isinstance(entries, list) or not entries:
        raise UsageError(f"{place}.search: write [[night.search]], once for each search")
    usual = settings_in(table, project)
    searches = tuple(
        _with_defaults(search, usual)
        for number, entry in enumerate(entries, 1)
        for search in _searches(_table_of(table, entry, f"{NIGHT}.search {number}", SEARCH_NAMES), project, place)
    )
    names = [search.name for search in searches]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{place}: two searches are called {name!r}: give them a name each")
    return NightSettings(
        searches=searches,
        minutes=minutes if cases is None else None,
        cases=None if cases is None else int(cases),
        memory=places.memory,
        known=places.known,
        fail_on=_fail_on(values, place),
        block=int(_number(values, "block", place) or 0) or None,
        seed=_seed(values, place),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NightPlaces:
    """Where nights keep what they know."""

    memory: Path
    known: Path
    """The list of known issues."""


def read_night_places(project: Path) -> NightPlaces:
    """Read where a project's nights keep what they know; what they search may be wrong.

    Raises:
        UsageError: the settings are wrong.
    """
    table = read_table(project)
    values = _table_of(table, table.values.get(NIGHT, {}), NIGHT, NAMES)
    return _places(values, f"{table.place} {NIGHT}", project)


def _places(values: Mapping[str, Any], place: str, project: Path) -> NightPlaces:
    return NightPlaces(
        memory=project / _text(values, "memory", place, USUAL_MEMORY),
        known=project / _text(values, "known", place, "known_issues.toml"),
    )


def _with_defaults(search: SearchSettings, usual: ProjectSettings) -> SearchSettings:
    """Return the search with the project's devices and libraries where it has none of its own.

    A search on hardware GPUs emulates their own models instead.
    """
    engine = find_engine(search.engine)
    device = None if engine is not None and engine.needs_gpu else usual.device
    return replace(search, device=search.device or device, libraries=search.libraries or usual.libraries)


def _searches(entry: Mapping[str, Any], project: Path, place: str) -> Iterator[SearchSettings]:
    """Yield a search for each release of an entry."""
    suites = _texts(entry, "suites", place) or USUAL_SUITES
    common = tuple(placed(library, project) for library in _texts(entry, "with", place))
    releases = _texts(entry, "releases", place)
    name = _text(entry, "name", place, "")
    for release in releases or ("",):
        libraries = (*((placed(release, project),) if release else ()), *common)
        words = [name or " ".join(suites), *([release] if release and (not name or len(releases) > 1) else [])]
        engine, sanitizer = _text(entry, "engine", place, VIRTUAL.name), _text(entry, "sanitizer", place, "")
        if not name:
            words += [word for word in (engine if engine != VIRTUAL.name else "", sanitizer) if word]
        yield SearchSettings(
            name=" ".join(words),
            suites=_suites(suites, place),
            op=_texts(entry, "op", place),
            libraries=libraries,
            device=_text(entry, "device", place, "") or None,
            engine=engine,
            sanitizer=sanitizer,
            oracle=_texts(entry, "oracle", place),
            share=_number(entry, "share", place) or 1.0,
            time_limit_s=_number(entry, "time-limit", place) or TIME_LIMIT_S,
        )


def _suites(names: Sequence[str], place: str) -> tuple[str, ...]:
    if names == USUAL_SUITES and not Path(*USUAL_SUITES).exists():
        raise UsageError(f"{place}: there is no folder suites: run harness init, or name suites under [[night.search]]")
    try:
        return named_suites(names)
    except UsageError as error:
        raise UsageError(f"{place}.search suites: {error}") from None


def _table_of(table: SettingsTable, value: Any, name: str, known: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{table.place} {name} = {value!r}: write a table")
    for key in value:
        if key not in known:
            raise UsageError(f"{table.place} {name}: {unknown('setting', key, known)}")
    return value


def _text(values: Mapping[str, Any], name: str, place: str, usual: str) -> str:
    value = values.get(name, usual)
    if not isinstance(value, str):
        raise UsageError(f"{place} {name} = {value!r}: write a text")
    return value


def _texts(values: Mapping[str, Any], name: str, place: str) -> tuple[str, ...]:
    value = values.get(name, [])
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise UsageError(f"{place} {name} = {value!r}: write a list of texts")
    return tuple(value)


def _number(values: Mapping[str, Any], name: str, place: str) -> float | None:
    value = values.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise UsageError(f"{place} {name} = {value!r}: write a number above 0")
    return float(value)


def _seed(values: Mapping[str, Any], place: str) -> int:
    seed = values.get("seed", 0)
    if type(seed) is not int:
        raise UsageError(f"{place} seed = {seed!r}: write a whole number")
    return seed


def _fail_on(values: Mapping[str, Any], place: str) -> FailOn:
    text = _text(values, "fail-on", place, FailOn.NEW)
    if text not in set(FailOn):
        raise UsageError(f"{place} fail-on: {unknown('choice', text, tuple(FailOn))}")
    return FailOn(text)
