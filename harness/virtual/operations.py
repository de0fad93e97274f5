"""The table of all operations that the machine executes; a new one is one entry in the file of its kind."""

from collections.abc import Mapping

from harness.virtual import (
    operations_arith,
    operations_control,
    operations_descriptor,
    operations_libdevice,
    operations_memory,
    operations_tile,
)
from harness.virtual.machine import Handler

HANDLERS: Mapping[str, Handler] = {
    **operations_arith.HANDLERS,
    **operations_control.HANDLERS,
    **operations_memory.HANDLERS,
    **operations_descriptor.HANDLERS,
    **operations_libdevice.HANDLERS,
    **operations_tile.HANDLERS,
}
