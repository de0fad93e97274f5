"""Configs that a library's host code picks: where they are listed, and which one a case has it pick.

`harness.search.listed_configs` reads tables, and `harness.execution.picked_configs` hands a config to the library.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

DEVICE = "device"
"""The field of a table's name that holds the name of the GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PickedConfig:
    """The config that a function of the library's host code returns in a case."""

    function: str
    """`package.module:function`."""
    config: str
    """As JSON."""
    key: int | None = None
    """The size under which its table lists it."""
    table: str = ""
    """The file that lists it, one of perhaps several; empty if the suite lists it."""

    @property
    def function_name(self) -> str:
        """The function without its module."""
        return self.function.rpartition(":")[2]

    @property
    def value(self) -> Any:
        """The config."""
        return json.loads(self.config)

    @property
    def label(self) -> str:
        """The function and the config, however many tables list it."""
        return f"{self.function_name} {self.config}"

    @property
    def origin(self) -> str:
        """The place of the config: `E=8,N=1024,device_name=NVIDIA_H200.json at 64`."""
        at = "" if self.key is None else f" at {self.key}"
        return f"{self.table}{at}" if self.table else ""

    def __str__(self) -> str:
        origin = f" ({self.origin})" if self.origin else ""
        return f"{self.function_name} picks {self.config}{origin}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigPlace:
    """A place that lists a config: in a table of the library, or in the suite."""

    table: str = ""
    key: int | None = None
    span: range = range(0)
    """The sizes that are nearer to the key than to other keys of the table; empty without a key."""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Values of dims and options by name, from the table's name: `{"E": "8", "N": "1024"}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedConfig:
    """A config that host code may pick on a device, and all places that list it."""

    config: str
    """As JSON, with sorted keys."""
    places: tuple[ConfigPlace, ...]

    def label(self, function: str) -> str:
        """Return the function and the config, as `PickedConfig.label`."""
        return f"{function.rpartition(':')[2]} {self.config}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostConfigs:
    """The configs among which a function of the library picks."""

    tables: tuple[str, ...] = ()
    """Names of JSON files, relative to the folder of the function's module.

    `{E}` stands for the size of the dim E or the value of the option E, `{device}` for the name of the GPU, and `*` for
    any text.
    """
    configs: tuple[Any, ...] = ()
    """Configs that no file lists."""
    by_device: Mapping[str, tuple[Any, ...]] = field(default_factory=dict[str, tuple[Any, ...]])
    """Configs that no file lists, by the slug of the device."""
    nearest: str = ""
    """The dim, or arithmetic over dims, with which the library compares the keys of a table; it picks the nearest."""
    devices: Mapping[str, str] = field(default_factory=dict[str, str])
    """Slugs of similar devices by the names that tables give to GPUs: `{"NVIDIA_H20": "h200"}`."""
    answer: Callable[..., Any] | None = None
    """Returns what the function returns, from the config and the arguments of the call.

    If it is None, the function returns a table with the one config under its key, or the config if there is no key.
    """
    listed: Mapping[str, tuple[ListedConfig, ...]] = field(default_factory=dict[str, tuple[ListedConfig, ...]])
    """What was read from the tables of the installed library, by the slug of the device."""

    @property
    def moved(self) -> str:
        """The dim that is chosen near a key: the first that `nearest` names."""
        return re.findall(r"[A-Za-z_]\w*", self.nearest)[0]

    def returned(self, picked: PickedConfig) -> Any:
        """Return what a function without an `answer` returns."""
        return picked.value if picked.key is None else {picked.key: picked.value}


def config_text(config: object) -> str:
    """Return a config as JSON, equal for equal configs."""
    return json.dumps(config, sort_keys=True)
