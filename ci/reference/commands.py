"""The reference of commands and of the pytest plugin, from their parsers."""

import argparse
import re
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from ci.reference.markdown import code, escaped, table
from harness.cli import COMMANDS, module_of
from harness.cli.command import Parser
from harness.pytest_plugin.plugin_options import add_options

if TYPE_CHECKING:
    import pytest

EXAMPLE = "  harness "


def parser_of(name: str) -> Parser:
    """Return the parser of one command."""
    parser = Parser(prog=f"harness {name}")
    import_module(module_of(name)).add_options(parser)
    return parser


def command_list() -> str:
    """Return a table of all commands."""
    return table(
        ("command", "what it does"), ((f"[`harness {name}`](#harness-{name})", COMMANDS[name]) for name in COMMANDS)
    )


def command_reference() -> str:
    """Return a section for each command."""
    return "\n\n".join(map(_section, COMMANDS))


def _section(name: str) -> str:
    parser = parser_of(name)
    summary = COMMANDS[name]
    rows = (
        (_named(action), escaped(_help(action, parser)))
        for action in parser.actions
        if action.help != argparse.SUPPRESS and action.dest != "help"
    )
    options = table(("argument", "meaning"), rows)
    parts = (f"## harness {name}", f"{summary[0].upper()}{summary[1:]}.", *_texts(parser.epilog or ""), options)
    return "\n\n".join(filter(None, parts))


def _named(action: argparse.Action) -> str:
    """Return the names of an option with its value, or the metavar of an argument."""
    metavar = action.metavar if isinstance(action.metavar, str) else "|".join(map(str, action.choices or ()))
    value = f" {metavar or action.dest.upper()}" if action.nargs != 0 else ""
    return ", ".join(code(f"{option}{value}") for option in action.option_strings) or code(value.strip())


def _help(action: argparse.Action, parser: Parser) -> str:
    """Return the help with its placeholders filled, as argparse prints it."""
    values = {name: value for name, value in vars(action).items() if value is not argparse.SUPPRESS}
    values["choices"] = ", ".join(map(str, action.choices or ()))
    return (action.help or "") % {**values, "prog": parser.prog}


def _texts(epilog: str) -> Iterable[str]:
    """Yield examples as a block of shell commands, and the other paragraphs as they are."""
    lines = epilog.splitlines()
    if examples := [_commented(line.strip()) for line in lines if line.startswith(EXAMPLE)]:
        yield "\n".join(("```", *examples, "```"))
    prose = "\n".join(line for line in lines if not line.startswith(EXAMPLE) and not re.fullmatch(r"examples?:", line))
    for paragraph in re.split(r"\n{2,}", prose.strip()):
        yield re.sub(r"^exit status:", "**Exit status:**", escaped(paragraph))


def _commented(example: str) -> str:
    """Return an example whose comment begins with `#`."""
    command, gap, comment = re.match(r"(.*?)(\s{2,}|$)(.*)", example).groups()  # pyright: ignore[reportOptionalMemberAccess] - it matches every line
    return f"{command}{gap}# {comment.removeprefix('# ')}" if comment else command


class _Recorder:
    """A parser of pytest that records options."""

    def __init__(self) -> None:
        self.options: dict[str, dict[str, Any]] = {}

    def getgroup(self, *_: str) -> "_Recorder":
        return self

    def addoption(self, name: str, **settings: Any) -> None:
        self.options[name] = settings


def plugin_options() -> dict[str, dict[str, Any]]:
    """Return the settings of each option of the pytest plugin, by its name."""
    recorder = _Recorder()
    add_options(cast("pytest.Parser", recorder))
    return recorder.options


def pytest_options() -> str:
    """Return a table of the options of the pytest plugin."""
    return table(("option", "meaning"), (_plugin_row(*option) for option in plugin_options().items()))


def _plugin_row(name: str, settings: dict[str, Any]) -> tuple[str, str]:
    value = settings.get("metavar") or "|".join(settings.get("choices", ()))
    return code(f"{name} {value}".strip()), escaped(settings["help"])
