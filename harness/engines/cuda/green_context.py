"""Limits work on the hardware GPU to some of its SMs, with a stream of a green context."""

import importlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch

from harness.errors import CannotExecute


class SmLimit:
    """Limits launches on the current GPU to `sm_count` SMs while `applied`.  The green context is made on first use."""

    def __init__(self, sm_count: int) -> None:
        self._sm_count = sm_count
        self._context: Any = None
        """Referenced here because it must outlive everything launched on it."""
        self._stream: Any = None

    @contextmanager
    def applied(self) -> Generator[None]:
        """While active, launches use at most that many SMs, those of backward passes too.

        Raises:
            CannotExecute: torch or the driver does not support green contexts.
        """
        stream = self._get_stream()
        # The green context's stream and other streams do not wait for each other: synchronise at both ends.
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            yield
        torch.cuda.synchronize()

    def _get_stream(self) -> Any:
        if self._stream is None:
            try:
                contexts = importlib.import_module("torch.cuda.green_contexts")
                # torch 2.12 accepts both arguments by keyword only.
                self._context = contexts.GreenContext.create(num_sms=self._sm_count, device_id=0)
                self._stream = self._context.Stream()
            except (ImportError, AttributeError, TypeError, RuntimeError) as error:
                raise CannotExecute(
                    f"work held to {self._sm_count} SMs, since torch {torch.__version__} and this driver make no green "
                    f"context ({error}): choose a device with at least as many SMs as the GPU, or --engine virtual"
                ) from error
        return self._stream
