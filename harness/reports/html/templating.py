"""The templates of pages, and the one script that they hold."""

import base64
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness.reports.html.code import coloured

SCRIPT = "page.js"
CODE = re.compile("`([^`]+)`")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageScript:
    """The script that searches, sorts and copies."""

    text: str

    @property
    def hash(self) -> str:
        """The only script that a page's content security policy lets run."""
        return f"sha256-{base64.b64encode(hashlib.sha256(self.text.encode()).digest()).decode()}"


@cache
def page_script() -> PageScript:
    """Return the script of all pages."""
    return PageScript(text=files("harness.reports.html").joinpath("templates", SCRIPT).read_text(encoding="utf-8"))


@cache
def environment() -> Environment:
    """Return the templates with their filters."""
    environment = Environment(
        loader=PackageLoader("harness.reports.html"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["coloured"] = coloured
    environment.filters["drawn"] = Markup
    environment.filters["coded"] = _coded
    environment.filters["breakable"] = _breakable
    environment.tests["link"] = _is_link
    return environment


def _coded(text: str) -> Markup:
    """Show as code what stands in backquotes."""
    parts = enumerate(CODE.split(text))
    return Markup("").join(Markup("<code>%s</code>") % part if index % 2 else part for index, part in parts)


def _breakable(name: str) -> Markup:
    """Let a long name break after each underscore."""
    return Markup("_<wbr>").join(name.split("_"))


def _is_link(value: str) -> bool:
    """Return True for http links only: a list of known issues may hold any text, such as `javascript:`."""
    return value.startswith(("https://", "http://"))
