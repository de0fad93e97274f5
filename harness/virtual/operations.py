"""The table of all operations that the machine executes; a new one is one entry in the file of its kind."""

from collections.abc import Mapping

from harness.virtual import (
    operations_arith,
    operations_assembly,
    operations_atomic,
    operations_control,
    operations_convert,
    operations_debug,
    operations_descriptor,
    operations_libdevice,
    operations_memory,
    operations_pointer,
    operations_product,
    operations_tile,
)
from harness.virtual.machine import Handler

HANDLERS: Mapping[str, Handler] = {
    **operations_arith.HANDLERS,
    **operations_assembly.HANDLERS,
    **operations_atomic.HANDLERS,
    **operations_control.HANDLERS,
    **operations_convert.HANDLERS,
    **operations_debug.HANDLERS,
    **operations_memory.HANDLERS,
    **operations_pointer.HANDLERS,
    **operations_product.HANDLERS,
    **operations_descriptor.HANDLERS,
    **operations_libdevice.HANDLERS,
    **operations_tile.HANDLERS,
}
