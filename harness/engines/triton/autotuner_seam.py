"""The seam to Triton's autotuner: lets it work as on a GPU, with the clock replaced, and records what it does.

The autotuner runs its own code.  Only its benchmark is replaced: every config runs once, and the procedure decides
which one is the fastest.  Besides `triton_seam`, only this file touches these names; `test_autotuner_seam.py` checks
them.
"""

import ctypes
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.engines.torch.torch_seam import plain_torch, without_dispatch_modes
from harness.engines.triton.triton_seam import ChosenConfig, ConfigChooser, kernel_name, reason_of, summary_of
from harness.errors import CannotRunHere
from harness.execution import flight_recorder
from harness.model.tuning import TriedConfig, TunerCall

MOST_TRIED = 2
"""Configs of a call that are benchmarked; more only as long as none works."""
FASTEST, SLOWER, NOT_TRIED = 0.0, 1.0, 1e6
"""Reported benchmark times in milliseconds: of the config to choose, of the other ones, of configs that do not run."""
ABSENT = object()
LOOK_S, MOST_IDLE_LOOKS = 0.02, 25
"""How often another thread is looked at, and how often in a row it may be asleep before it counts as waiting."""


def arguments_of(tuner: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by name, without those that are no parameters of the kernel."""
    arguments = {**dict(zip(tuner.arg_names, args, strict=False)), **kwargs}
    return {name: value for name, value in arguments.items() if name in tuner.arg_names}


def key_of(tuner: Any, arguments: Mapping[str, Any]) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return the key under which an autotuner stores its choice: values by argument, and element types of tensors."""
    values = {name: str(arguments[name]) for name in tuner.keys if name in arguments}
    return values, tuple(str(value.dtype) for value in arguments.values() if hasattr(value, "dtype"))


@dataclass(slots=True)
class _OpenCall:
    """A call of an autotuner in progress."""

    tuner: Any
    winner: str
    """The config that is to win."""
    configs: Sequence[Any]
    tried: list[TriedConfig] = field(default_factory=list[TriedConfig])
    launched: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The keyword arguments of the launch that follows the benchmarks."""
    benched: Any = None
    """The config that is being benchmarked."""

    @property
    def fastest(self) -> str:
        """The config that works and has the shortest time; empty if none works."""
        working = [tried.config for tried in self.tried if not tried.error]
        return self.winner if self.winner in working else next(iter(working), "")


@dataclass(slots=True)
class _Caller:
    """The calls of autotuners in one thread, or in threads that run one after the other."""

    before: Mapping[str, Sequence[str]]
    """The configs of a run before, in order, by kernel."""
    number: Counter[str] = field(default_factory=Counter[str])
    open: list[_OpenCall] = field(default_factory=list[_OpenCall])
    calls: list[TunerCall] = field(default_factory=list[TunerCall])

    @classmethod
    def of(cls, launched: Iterable[tuple[str, str]]) -> "_Caller":
        before: dict[str, list[str]] = {}
        for kernel, config in launched:
            before.setdefault(kernel, []).append(config)
        return cls(before)

    def winner(self, kernel: str) -> str:
        """Return the config of the run before; empty if there was no such call."""
        configs, number = self.before.get(kernel, ()), self.number[kernel]
        return configs[number] if number < len(configs) else ""

    @property
    def same_configs(self) -> bool:
        """True if each call ran with the config of the run before."""
        ran: dict[str, list[str]] = {}
        for call in self.calls:
            ran.setdefault(call.kernel, []).append(call.chosen)
        return all(self.before.get(kernel) == configs for kernel, configs in ran.items())


class Tuning:
    """Lets every autotuner tune at its first call for a key, and choose what a run before it used.

    After each call that tunes, it compares the contents of the arguments with those after a call without benchmarks.
    """

    _compares = True

    def __init__(self, chooser: ConfigChooser, launched: Iterable[tuple[str, str]]) -> None:
        """Make a procedure; `launched` has kernel and config of each launch of the run before, in order."""
        self._chooser = chooser
        self._main = _Caller.of(launched)
        self._is_alone = False
        self._saved: dict[int, tuple[Any, dict[str, Any]]] = {}
        """The attributes of each autotuner that are replaced while this lasts."""

    @contextmanager
    def installed(self) -> Generator[None]:
        """Replace what autotuners do while the context lasts.  Their caches are empty at its beginning."""
        try:
            with self._chooser.following(self):
                yield
        finally:
            for tuner, attributes in self._saved.values():
                for name, value in attributes.items():
                    if value is ABSENT:
                        vars(tuner).pop(name, None)
                    else:
                        setattr(tuner, name, value)

    @property
    def calls(self) -> list[TunerCall]:
        return self._main.calls

    @property
    def same_configs(self) -> bool:
        """True if each call ran with the config of the run before."""
        return self._main.same_configs

    @property
    def _caller(self) -> _Caller:
        """The caller in this thread."""
        return self._main

    # --- what Triton calls ---

    def call(self, tuner: Any, original: Callable[[], Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if self._is_alone:
            return original()
        caller = self._caller
        if caller.open and caller.open[-1].tuner is tuner:  # a subclass calls the method that it overrides
            return original()
        self._replace_clock(tuner)
        vars(tuner).pop("best_config", None)  # of an earlier call
        kernel = kernel_name(tuner)
        arguments = arguments_of(tuner, args, kwargs)
        call = _OpenCall(tuner, caller.winner(kernel), tuner.configs)
        memory = _Memory(arguments) if self._compares and len(tuner.configs) > 1 else None
        caller.number[kernel] += 1
        caller.open.append(call)
        changed: tuple[str, ...] = ()
        try:
            with self._chooser.launching(ChosenConfig(call.winner, 0, len(tuner.configs))):
                result = original()
            if memory is not None and call.tried:
                changed = self._changed(call, memory, original)
            return result
        finally:
            caller.open.pop()
            caller.calls.append(_record(call, arguments, changed))

    def bench(self, tuner: Any, original: Callable[[], Any], config: Any) -> Any:
        call = self._caller.open[-1]
        if call.benched is config:  # a subclass calls the method that it overrides
            return original()
        if len(call.tried) >= MOST_TRIED and call.fastest and str(config) != call.winner:
            return [NOT_TRIED] * 3
        del tuner
        call.benched, before = config, len(call.tried)
        try:
            timings = original()
        finally:
            call.benched = None
        if len(call.tried) == before or call.tried[-1].error:
            return timings
        time = FASTEST if str(config) == call.winner else SLOWER + len(call.tried)
        return [time] * len(timings) if isinstance(timings, (list, tuple)) else time

    def launch(self, kernel: Any, original: Callable[[], Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        del kernel, args
        calls = self._caller.open
        if calls and calls[-1].benched is None:
            calls[-1].launched = kwargs
        return original()

    # --- the parts ---

    def _replace_clock(self, tuner: Any) -> None:
        if id(tuner) in self._saved:
            return
        replaced = {"cache": type(tuner.cache)(), "cache_results": False, "do_bench": self._run_once}
        self._saved[id(tuner)] = (tuner, {name: vars(tuner).get(name, ABSENT) for name in replaced})
        for name, value in replaced.items():
            setattr(tuner, name, value)

    def _run_once(
        self, kernel_call: Callable[[], object], quantiles: Sequence[float] = (0.5,), **_: Any
    ) -> list[float]:
        """Run the config once, in the place of a benchmark."""
        call = self._caller.open[-1]
        config = str(call.benched)
        try:
            kernel_call()
        except CannotRunHere:
            raise
        except Exception as error:
            call.tried.append(TriedConfig(config=config, error=type(error).__name__, message=reason_of(error)))
            flight_recorder.swallowed(kernel_name(call.tuner), summary_of(error), config)
            raise
        call.tried.append(TriedConfig(config=config))
        return [SLOWER] * len(quantiles)

    def _changed(self, call: _OpenCall, memory: "_Memory", original: Callable[[], Any]) -> tuple[str, ...]:
        """Return the arguments whose contents differ from those after a call with the chosen config alone."""
        tuner, tuned = call.tuner, memory.contents()
        if (chosen := _best(call)) is None:
            return ()
        launched, self._is_alone = call.launched, True
        memory.restore()
        try:
            tuner.configs = [chosen]
            original()
        finally:
            tuner.configs, call.launched, self._is_alone = call.configs, launched, False
        changed = memory.differing(tuned)
        memory.write(tuned)
        return changed


class InterruptedTuning(Tuning):
    """Lets another thread call the same kernels right after the first benchmark.

    One thread runs at a time.  The other one runs until it ends, or until it waits, as for a lock of the library.
    """

    _compares = False

    def __init__(
        self,
        chooser: ConfigChooser,
        launched: Iterable[tuple[str, str]],
        other: Callable[[], object],
        other_launched: Iterable[tuple[str, str]],
    ) -> None:
        """Make a procedure; `other` is called in the other thread, and launches `other_launched` when it is alone."""
        super().__init__(chooser, launched)
        self.interrupted = ""
        """The kernel whose tuning was interrupted; empty if none was."""
        self._other = _Caller.of(other_launched)
        self._thread = threading.Thread(target=other, name="another caller", daemon=True)
        self._turn = threading.RLock()

    @property
    def _caller(self) -> _Caller:
        return self._other if threading.current_thread() is self._thread else self._main

    @property
    def all_same_configs(self) -> bool:
        """True if each call of both threads ran with the config of the run before."""
        return self.same_configs and self._other.same_configs

    def bench(self, tuner: Any, original: Callable[[], Any], config: Any) -> Any:
        timings = super().bench(tuner, original, config)
        if not self.interrupted and threading.current_thread() is not self._thread:
            self.interrupted = kernel_name(tuner)
            self._thread.start()
            _wait_while_it_works(self._thread)
        return timings

    def launch(self, kernel: Any, original: Callable[[], Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        with self._turn:  # launches are recorded one after the other
            return super().launch(kernel, original, args, kwargs)

    def join(self) -> bool:
        """Wait until the other thread ends, and return True if it does."""
        if self.interrupted:
            _wait_while_it_works(self._thread)
        return not self._thread.is_alive()


def _wait_while_it_works(thread: threading.Thread) -> None:
    """Wait until the thread ends, or uses no processor time for a while."""
    idle, before = 0, ""
    while thread.is_alive() and idle < MOST_IDLE_LOOKS:
        thread.join(LOOK_S)
        used = _processor_time(thread)
        idle, before = (idle + 1 if used == before else 0), used


def _processor_time(thread: threading.Thread) -> str:
    """Return the state and the processor time of a thread, as Linux counts it; it is another one while it works."""
    try:
        fields = Path(f"/proc/self/task/{thread.native_id}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    state, user, system = fields[0], fields[11], fields[12]
    return f"{user} {system}" if state == "S" else f"{state} {user} {system} {time.monotonic()}"


class _Memory:
    """The storages of a call's tensors, and their contents before the call."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        tensors = {name: getattr(value, "base", value) for name, value in arguments.items()}
        self._storages = {
            name: value.untyped_storage() for name, value in tensors.items() if isinstance(value, torch.Tensor)
        }
        self._before = self.contents()

    def contents(self) -> Mapping[str, torch.UntypedStorage]:
        with plain_torch(), without_dispatch_modes():
            return {name: storage.clone() for name, storage in self._storages.items()}

    def restore(self) -> None:
        self.write(self._before)

    def write(self, contents: Mapping[str, torch.UntypedStorage]) -> None:
        with plain_torch(), without_dispatch_modes():
            for name, storage in self._storages.items():
                storage.copy_(contents[name])

    def differing(self, contents: Mapping[str, torch.UntypedStorage]) -> tuple[str, ...]:
        """Return the names of tensors whose bytes differ from these."""
        return tuple(
            name
            for name, storage in self._storages.items()
            if not np.array_equal(_bytes(storage), _bytes(contents[name]))
        )


def _bytes(storage: torch.UntypedStorage) -> Any:
    """Return the bytes of a storage on the CPU, as an array that shares its memory."""
    if not storage.nbytes():
        return np.empty(0, dtype=np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * storage.nbytes()).from_address(storage.data_ptr()))


def _record(call: _OpenCall, arguments: Mapping[str, Any], changed: tuple[str, ...]) -> TunerCall:
    tuner, best = call.tuner, _best(call)
    values, types = key_of(tuner, arguments)
    parameters: Mapping[str, Any] = {} if best is None else best.all_kwargs()
    launched = call.launched
    return TunerCall(
        kernel=kernel_name(tuner),
        key=values,
        types=types,
        configs=len(call.configs),
        tried=tuple(call.tried),
        fastest=call.fastest,
        chosen="" if best is None else str(best),
        overridden=tuple(
            f"{name}: {launched[name]} in place of {value}"
            for name, value in parameters.items()
            if name in launched and launched[name] != value
        ),
        changed=changed,
        restores=tuple(getattr(tuner, "restore_value", ())),
        resets=tuple(getattr(tuner, "reset_to_zero", ())),
        thread=threading.current_thread().name,
    )


def _best(call: _OpenCall) -> Any:
    """Return the config that the autotuner chose; None if it chose none."""
    return getattr(call.tuner, "best_config", None)
