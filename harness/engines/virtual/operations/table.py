"""The table of all TTIR operations that the machine executes; a new one is one entry in a `HANDLERS` of this folder."""

from collections.abc import Mapping

from harness.engines.virtual.machine import Handler
from harness.engines.virtual.operations import (
    arith,
    atomic,
    control,
    convert,
    debug,
    descriptor,
    inline_assembly,
    libdevice,
    memory,
    product,
    shared,
    tile,
)

HANDLERS: Mapping[str, Handler] = {
    **arith.HANDLERS,
    **inline_assembly.HANDLERS,
    **atomic.HANDLERS,
    **control.HANDLERS,
    **convert.HANDLERS,
    **debug.HANDLERS,
    **memory.HANDLERS,
    **product.HANDLERS,
    **descriptor.HANDLERS,
    **libdevice.HANDLERS,
    **shared.HANDLERS,
    **tile.HANDLERS,
}
"""By the operation's TTIR name."""
