"""Garbage collection while modules are imported, and while many objects are made that all stay."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Generator[None]:
    """Load in the block without garbage collections, and keep what is there after it out of all later ones.

    What is imported stays, so a collection meanwhile looks at it in vain, and takes a quarter of the time or more.  A
    later one would write into each object that it looks at, and so copy all pages in each forked child.
    """
    with collections_deferred():
        try:
            yield
        finally:
            gc.freeze()


@contextmanager
def collections_deferred() -> Generator[None]:
    """Make objects in the block without garbage collections, which would look at each of them in vain."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
