"""Autotuners tune on the virtual GPU as they do on hardware, with the clock replaced, and what they do is recorded."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from harness.engines.triton.autotuner_seam import MOST_TRIED, InterruptedTuning, Tuning
from harness.model.tuning import TriedConfig
from tests.engines.conftest import Gpu

MANY = MOST_TRIED + 2


def text_of(way: int) -> str:
    return str(triton.Config({"WAY": way}))


def configs(count: int) -> list[Any]:
    return [triton.Config({"WAY": way}) for way in range(count)]


def cell() -> torch.Tensor:
    return torch.zeros(1, dtype=torch.int32)


@triton.autotune(configs=configs(MANY), key=["n"])
@triton.jit
def way_kernel(out, n, WAY: tl.constexpr):
    tl.store(out, WAY + n * 0)


def test_the_first_call_for_a_key_tunes_and_the_second_does_not(gpu: Gpu) -> None:
    last = MANY - 1
    tuning = Tuning(gpu.chooser, [("way_kernel", text_of(last))] * 3)
    out = cell()
    with tuning.installed():
        for n in (7, 7, 8):
            way_kernel[(1,)](out, n)
    first, second, other = tuning.calls
    assert out.tolist() == [last]
    assert (dict(first.key), first.types, first.configs) == ({"n": "7"}, ("torch.int32",), MANY)
    assert [one.config for one in first.tried] == [*map(text_of, range(MOST_TRIED)), text_of(last)]
    assert (first.fastest, first.chosen, first.overridden, first.changed) == (text_of(last), text_of(last), (), ())
    assert (first.is_from_cache, second.is_from_cache, other.is_from_cache) == (False, True, False)
    assert tuning.same_configs


def test_afterwards_the_case_chooses_again_and_caches_are_as_before(gpu: Gpu) -> None:
    before = dict(way_kernel.cache)
    with Tuning(gpu.chooser, ()).installed():
        way_kernel[(1,)](cell(), 7)
    out = cell()
    gpu.chooser.requested = {"way_kernel": 2}
    way_kernel[(1,)](out, 7)
    assert out.tolist() == [2]
    assert way_kernel.cache == before
    assert "do_bench" not in vars(way_kernel)


@triton.autotune(configs=configs(3), key=[])
@triton.jit
def early_refusing_kernel(out, LEAST: tl.constexpr, WAY: tl.constexpr):
    tl.static_assert(WAY >= LEAST, "too small a way")
    tl.store(out, WAY)


def test_an_error_that_the_autotuner_swallows_is_recorded(gpu: Gpu) -> None:
    tuning = Tuning(gpu.chooser, ())
    with tuning.installed():
        early_refusing_kernel[(1,)](cell(), 1)
    (call,) = tuning.calls
    refused, *ran = call.tried
    assert (refused.config, refused.error) == (text_of(0), "CompileTimeAssertionFailure")
    assert "too small a way" in refused.message
    assert ran == [TriedConfig(config=text_of(1))]
    assert call.chosen == text_of(1)


def test_where_every_config_fails_the_first_one_is_launched_all_the_same(gpu: Gpu) -> None:
    tuning = Tuning(gpu.chooser, ())
    with tuning.installed(), pytest.raises(triton.compiler.errors.CompileTimeAssertionFailure):
        early_refusing_kernel[(1,)](cell(), 3)
    (call,) = tuning.calls
    assert [bool(one.error) for one in call.tried] == [True] * 3
    assert (call.fastest, call.chosen) == ("", text_of(0))


@triton.jit
def add_one(x, n):
    tl.store(x, tl.load(x) + 1 + n * 0)


@triton.jit
def add_way(x, n, WAY: tl.constexpr):
    tl.store(x, tl.load(x) + 1 + n * 0 * WAY)


def test_contents_that_benchmarks_change_are_named(gpu: Gpu) -> None:
    plain = triton.autotune(configs=configs(2), key=["n"])(add_way)
    restoring = triton.autotune(configs=configs(2), key=["n"], restore_value=["x"])(add_way)
    tuning = Tuning(gpu.chooser, ())
    changed, kept = cell(), cell()
    with tuning.installed():
        plain[(1,)](changed, 7)
        restoring[(1,)](kept, 7)
    assert (changed.tolist(), kept.tolist()) == ([3], [1])
    assert [(call.changed, call.restores) for call in tuning.calls] == [(("x",), ()), ((), ("x",))]


def test_a_parameter_that_a_heuristic_replaces_is_named(gpu: Gpu) -> None:
    kernel = triton.autotune(configs=configs(2), key=["n"])(triton.heuristics({"WAY": lambda _: 5})(add_way))
    tuning = Tuning(gpu.chooser, ())
    with tuning.installed():
        kernel[(1,)](cell(), 7)
    (call,) = tuning.calls
    assert call.overridden == ("WAY: 5 in place of 0",)


def test_kernels_that_are_not_autotuned_are_launched_as_ever(gpu: Gpu) -> None:
    tuning = Tuning(gpu.chooser, ())
    out = cell()
    with tuning.installed():
        add_one[(1,)](out, 7)
    assert (out.tolist(), tuning.calls) == ([1], [])


def test_a_subclass_that_overrides_the_benchmark_is_benchmarked_once(gpu: Gpu) -> None:
    class OwnAutotuner(triton.runtime.autotuner.Autotuner):
        def run(self, *args: Any, **kwargs: Any) -> Any:
            return super().run(*args, **kwargs)

        def _bench(self, *args: Any, config: Any, **meta: Any) -> Any:
            return super()._bench(*args, config=config, **meta)

    kernel = OwnAutotuner(add_way, add_way.arg_names, configs(2), ["n"], None, ["x"])
    tuning = Tuning(gpu.chooser, ())
    out = cell()
    with tuning.installed():
        kernel[lambda _: (1,)](out, 7)
    (call,) = tuning.calls
    assert out.tolist() == [1]
    assert [one.config for one in call.tried] == [text_of(0), text_of(1)]


def interrupted(gpu: Gpu, lock: Callable[[], AbstractContextManager[object]]) -> tuple[list[int], list[str]]:
    """Call a kernel in two threads, the second during the first tuning; return the cells and the exceptions."""
    kernel = triton.autotune(configs=configs(2), key=["n"])(add_way)
    first, second, errors = cell(), cell(), list[str]()
    gpu.case_launches.checks_threads = (
        False  # as in the engine's second runs: a compiler would delay one of the threads
    )

    def launch(x: torch.Tensor, n: int) -> None:
        try:
            with lock():
                kernel[(1,)](x, n)
        except TypeError as error:
            errors.append(str(error))

    tuning = InterruptedTuning(gpu.chooser, (), lambda: launch(second, 8), ())
    with tuning.installed():
        launch(first, 7)
        assert tuning.join()
    assert tuning.interrupted == "add_way"
    return [int(first), int(second)], errors


def test_tuning_in_two_threads_mixes_up_their_arguments(gpu: Gpu) -> None:
    _, errors = interrupted(gpu, nullcontext)
    assert errors == ["'NoneType' object is not a mapping"]


def test_a_thread_that_waits_for_a_lock_calls_afterwards(gpu: Gpu) -> None:
    lock = threading.Lock()
    assert interrupted(gpu, lambda: lock) == ([3, 3], [])
