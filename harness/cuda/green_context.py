"""Work that is held to some of a GPU's SMs, by a stream of a green context."""

import importlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch

from harness.errors import CannotExecute


class Restriction:
    """So many SMs of the current GPU, for what is launched while it holds; made when it is first needed."""

    def __init__(self, sm_count: int) -> None:
        self._sm_count = sm_count
        self._context: Any = None
        """Lives as long as what is launched on it."""
        self._stream: Any = None

    @contextmanager
    def held(self) -> Generator[None]:
        """While active, what is launched, backward passes too, gets so many SMs and no more.

        The stream waits for no other, and no other for it: so the GPU is waited for before and after.

        Raises:
            CannotExecute: torch or the driver have no green contexts.
        """
        stream = self._made()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            yield
        torch.cuda.synchronize()

    def _made(self) -> Any:
        if self._stream is None:
            try:
                contexts = importlib.import_module("torch.cuda.green_contexts")
                # Both by name: since torch 2.12 there is no other way.
                self._context = contexts.GreenContext.create(num_sms=self._sm_count, device_id=0)
                self._stream = self._context.Stream()
            except (ImportError, AttributeError, TypeError, RuntimeError) as error:
                raise CannotExecute(
                    f"work held to {self._sm_count} SMs, since torch {torch.__version__} and this driver make no green "
                    f"context ({error}): choose a device with at least as many SMs as the GPU, or --engine virtual"
                ) from error
        return self._stream
