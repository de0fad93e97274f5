"""Options that several commands share, and the types of their values."""

import argparse
import secrets
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from harness.cli.command import Parser
from harness.engines.cuda.sanitizers.suppressions import FILE as ACCEPTS
from harness.errors import UsageError, unknown
from harness.findings.known_issues import FILE as KNOWN
from harness.libraries import absolute_path
from harness.model.compute_sanitizer_report import Tool
from harness.model.engine_traits import ENGINES, VIRTUAL
from harness.model.plan import TIME_LIMIT_S, Plan
from harness.model.triton_sanitizer_report import Instrumentation
from harness.model.verdict import Severity
from harness.project_settings import JoinedByCommas, read_project_settings
from harness.search import USUAL_DEVICES
from harness.search.engine_choice import parse_engine
from harness.suite_files import named_suites, project_of

T = TypeVar("T")

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
"""The letters that may end a duration, in seconds."""


def add_suites(parser: Parser, *, required: bool = True) -> None:
    """`SUITE…` and `--op`."""
    parser.add_argument(
        "suites",
        nargs="+" if required else "*",
        metavar="SUITE",
        help="a suite file, a folder of them, or a suite of the package, as fla:norm",
    )
    parser.add_argument("--op", action="append", default=[], metavar="NAME", help="only this op; repeatable")


def add_libraries(parser: Parser) -> None:
    """`--with`."""
    parser.add_argument(
        "--with",
        dest="libraries",
        action="append",
        type=absolute_path,
        default=[],
        metavar="SPEC",
        help="library under test: a PyPI release (fla-core==0.6.0), a wheel or a folder; repeatable",
    )


def libraries_of(options: argparse.Namespace) -> tuple[str, ...]:
    """Return what `--with` names, or else the libraries of the project's settings."""
    return tuple(options.libraries) or read_project_settings(project_of(Path.cwd())).libraries


def add_device(parser: Parser, default: str = USUAL_DEVICES) -> None:
    """`--device`, of commands that emulate one GPU or several; `default` is in words if it is no list."""
    parser.add_argument(
        "--device",
        action=JoinedByCommas,
        metavar="NAME,…",
        help="GPUs to emulate, by name, architecture or compile target: h200,blackwell,sm_120; repeatable "
        f"(default: the project's, or else {default})",
    )


def devices_of(options: argparse.Namespace) -> str | None:
    """Return what `--device` names, or else the devices of the project's settings."""
    return options.device or read_project_settings(project_of(Path.cwd())).device


def plan_of(
    options: argparse.Namespace, *, device: str = USUAL_DEVICES, engine: str = "", seed: int | None = None
) -> Plan:
    """Return what the options and the project's settings ask for.  The keywords stand for options that are not given.

    Options that the command does not have count as not given.
    """
    values = {name: value for name, value in vars(options).items() if value is not None}
    engine = engine or values.get("engine", VIRTUAL.name)
    usual_device = None if parse_engine(engine).needs_gpu else devices_of(options) or device
    usual_seed = secrets.randbelow(2**32) if seed is None else seed
    plan = Plan(
        suites=named_suites(options.suites),
        op=tuple(options.op),
        device=values.get("device", usual_device),
        sm=values.get("sm"),
        env=joined_values(values.get("env", ())),
        cases=values.get("cases"),
        seconds=60 * options.minutes if "minutes" in values else None,
        seed=values.get("seed", usual_seed),
        oracle=tuple(values.get("oracle", ())),
        libraries=libraries_of(options),
        engine=engine,
        sanitizer=values.get("sanitizer", ""),
        isolation=values.get("isolation", "worker"),
        time_limit_s=options.time_limit,
    )
    return replace(plan, triage_seconds=60 * options.triage_minutes) if "triage_minutes" in values else plan


def add_engine(parser: Parser) -> None:
    """`--engine` and `--time-limit`."""
    single = [engine for engine in ENGINES if not engine.compares]
    places = ", ".join(f"{engine} ({engine.place})" if engine.place else engine.name for engine in single)
    pairs = " ".join(str(engine) for engine in ENGINES if engine.compares)
    parser.add_argument(
        "--engine",
        default=VIRTUAL.name,
        metavar="NAME",
        help=f"where cases run: {places}, two compared ({pairs}) or module:factory (default: %(default)s)",
    )
    add_time_limit(parser)


def add_time_limit(parser: Parser, default: float = TIME_LIMIT_S) -> None:
    parser.add_rare(
        "--time-limit",
        type=seconds,
        default=default,
        metavar="SECONDS",
        help="time limit of one case (default: %(default)g)",
    )


def add_fixed_seed(parser: Parser) -> None:
    """`--seed`, of a command that draws equal cases each time."""
    parser.add_argument(
        "--seed", type=int, default=0, metavar="S", help="another seed draws other cases (default: %(default)s)"
    )


def names_in(kind: str, text: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return the names in a list with commas, each once.

    Raises:
        UsageError: one is not known.
    """
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in set(known):
            raise unknown(kind, name, known)
    return names


def add_sanitizer(parser: Parser) -> None:
    """`--sanitizer` and `--accepts`."""
    parser.add_argument(
        "--sanitizer",
        metavar="TOOL",
        help=f"run cases under compute-sanitizer ({', '.join(Tool)}) or Triton's sanitizers "
        f"({', '.join(Instrumentation)}); then its options",
    )
    add_accepts(parser)


def add_accepts(parser: Parser) -> None:
    """`--accepts`, of reports of a sanitizer."""
    parser.add_rare(
        "--accepts",
        type=existing,
        default=Path(ACCEPTS),
        metavar="FILE",
        help="accepted sanitizer reports, each with a reason (default: %(default)s)",
    )


def add_show_output(parser: Parser) -> None:
    """`-s`."""
    parser.add_argument(
        "-s", "--show-output", action="store_true", help="show what ops print, and device_print of kernels"
    )


def add_no_resident(parser: Parser) -> None:
    """`--no-resident`."""
    parser.add_rare(
        "--no-resident",
        action="store_true",
        help="leave no process with torch and Triton loaded for the next command, and use none",
    )


def add_known(parser: Parser) -> None:
    """`--known`, of findings."""
    parser.add_rare(
        "--known",
        type=existing,
        default=Path(KNOWN),
        metavar="FILE",
        help="findings that are accepted for now (default: %(default)s)",
    )


def add_fail_on(parser: Parser) -> None:
    """`--fail-on`."""
    parser.add_argument(
        "--fail-on",
        choices=tuple(Severity),
        default=Severity.WARNING,
        metavar="SEVERITY",
        help=f"the lowest severity that makes the exit status 1: {' or '.join(Severity)} (default: %(default)s)",
    )


def json_path(name: str | None, option: str = "json") -> Path | None:
    """Return the path that `--json` or another option names, if it names one.

    Raises:
        UsageError: its folder does not exist.  Better now than after a search of an hour.
    """
    path = Path(name) if name else None
    if path and not path.absolute().parent.is_dir():
        raise UsageError(f"--{option} {path}: there is no folder {path.parent}")
    return path


def existing(text: str) -> Path:
    """Parse the path of an existing file."""
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text!r}")
    return path


def environment_variable(text: str) -> tuple[str, tuple[str, ...]]:
    """Parse `NAME=VALUE,…`: a variable, and the values to try; none after the `=` leaves it unset."""
    name, equals, values = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} names no variable: write NAME=VALUE,…")
    return name, tuple(value.strip() for value in values.split(",") if value.strip())


def joined_values(pairs: Iterable[tuple[str, tuple[T, ...]]]) -> dict[str, tuple[T, ...]]:
    """Return all values of each name, in the order given, each once."""
    values: dict[str, tuple[T, ...]] = {}
    for name, more in pairs:
        values[name] = tuple(dict.fromkeys((*values.get(name, ()), *more)))
    return values


def positive(text: str) -> int:
    return _whole(text, least=1)


def natural(text: str) -> int:
    """Parse a whole number from 0 on."""
    return _whole(text, least=0)


def _whole(text: str, *, least: int) -> int:
    try:
        value = int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from error
    if value < least:
        raise argparse.ArgumentTypeError(f"{text} is less than {least}")
    return value


def seconds(text: str) -> float:
    """Parse a duration as `90`, `90s`, `1.5m` or `2h`, and return it in seconds; a plain number is in seconds."""
    return _seconds(text, unit="s")


def minutes(text: str) -> float:
    """Parse a duration as `seconds` does, and return it in minutes; a plain number is in minutes."""
    return _seconds(text, unit="m") / UNITS["m"]


def _seconds(text: str, unit: str) -> float:
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS else (text, unit)
    try:
        value = float(number) * UNITS[unit]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from error
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no time")
    return value
