"""Calls of a library in which no kernel runs: they show what its autotuners would do, for one key after another.

A call takes milliseconds, since nothing is compiled.  Host code sees memory that no kernel has written.
"""

import ast
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from harness.engines.triton.autotuner_seam import arguments_of, key_of
from harness.engines.triton.triton_seam import ChosenConfig, ConfigChooser, kernel_name, usable_configs
from harness.syntax_trees import module_of

Key = tuple[tuple[tuple[str, str], ...], tuple[str, ...]]
"""Values by argument, and element types."""


@dataclass(frozen=True, slots=True)
class SurveyedCall:
    """The first call of an autotuned kernel, as far as it decides about configs."""

    kernel: str
    key: Mapping[str, str]
    types: tuple[str, ...]
    settings: Mapping[str, str]
    """The values of the parameters that are no tensors and come from no config."""
    code: tuple[object, ...]
    """Equal for calls with the same code: constants that the kernel uses, divisibility of integers, configs."""
    unused: frozenset[str]
    """Parameters that the kernel's code does not name."""
    usable: tuple[Any, ...]
    """The configs that survive pruning."""

    @property
    def whole_key(self) -> Key:
        return tuple(self.key.items()), self.types


class KeySurvey:
    """Records the first call of each autotuned kernel, and launches nothing."""

    def __init__(self, chooser: ConfigChooser) -> None:
        self.calls: dict[str, SurveyedCall] = {}
        self._chooser = chooser
        self._usable: tuple[Any, ...] | None = None
        """The configs of the call in progress; None outside of autotuners."""
        self._key: tuple[Mapping[str, str], tuple[str, ...]] = {}, ()

    def installed(self) -> AbstractContextManager[None]:
        """Replace what autotuners and kernels do while the context lasts."""
        return self._chooser.following(self)

    def call(self, tuner: Any, original: Callable[[], Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        configs = tuner.configs
        if self._usable is not None or len(configs) < 2 or kernel_name(tuner) in self.calls:
            return original()
        self._usable = tuple(usable_configs(tuner, args, kwargs))
        self._key = key_of(tuner, arguments_of(tuner, args, kwargs))
        try:
            tuner.configs = list(self._usable[:1])
            with self._chooser.launching(ChosenConfig("", 0, len(configs))):
                return original()
        finally:
            tuner.configs, self._usable = configs, None

    def bench(self, tuner: Any, original: Callable[[], Any], config: Any) -> Any:
        del tuner, original, config
        return [1.0] * 3

    def launch(self, kernel: Any, original: Callable[[], Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        del original
        if self._usable is not None:
            arguments = {**dict(zip(kernel.arg_names, args, strict=False)), **kwargs}
            self.calls.setdefault(kernel.fn.__name__, self._surveyed(kernel, arguments, self._usable))

    def _surveyed(self, kernel: Any, arguments: Mapping[str, Any], usable: tuple[Any, ...]) -> SurveyedCall:
        tuned = usable[0].all_kwargs() if usable else {}
        named = named_in(kernel)
        settings: dict[str, str] = {}
        code: list[object] = []
        for parameter in kernel.params:
            value = arguments.get(parameter.name)
            if hasattr(value, "dtype") or parameter.name in tuned or parameter.name not in arguments:
                continue
            settings[parameter.name] = str(value)
            if parameter.is_constexpr:
                code += [(parameter.name, str(value))] if parameter.name in named else []
            elif isinstance(value, int) and not parameter.do_not_specialize:
                code.append((parameter.name, value == 1, value % 16 == 0))
        values, types = self._key
        return SurveyedCall(
            kernel=kernel.fn.__name__,
            key=values,
            types=types,
            settings=settings,
            code=(*code, tuple(map(str, usable))),
            unused=frozenset(kernel.arg_names) - named,
            usable=usable,
        )


def named_in(kernel: Any) -> frozenset[str]:
    """Return the names that the body of a kernel uses; all of its parameters if its source cannot be parsed."""
    return _named_in(kernel.src, tuple(kernel.arg_names))


@lru_cache(maxsize=1024)
def _named_in(source: str, parameters: tuple[str, ...]) -> frozenset[str]:
    try:
        tree = module_of(textwrap.dedent(source))
    except SyntaxError:
        return frozenset(parameters)
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
