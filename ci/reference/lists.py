"""The lists of oracles, GPUs and exit statuses."""

from ci.reference.markdown import code, escaped, table
from harness import catalogue
from harness.cli.command import ExitStatus
from harness.model.device import DeviceProfile, Vendor
from harness.oracles import registry

KIB, MIB = 1 << 10, 1 << 20
MEANINGS = {
    ExitStatus.CLEAN: "clean: the command did what it was asked to, and found nothing",
    ExitStatus.FINDINGS: "findings, or another bad result; the command's section says which",
    ExitStatus.ERROR: "a wrong command line, a wrong suite, or a fault of the harness; one line says what to do",
    ExitStatus.NOTHING_CHECKED: "nothing is known: what was asked for could not be checked",
    ExitStatus.INTERRUPTED: "interrupted by Ctrl-C, SIGTERM or SIGHUP, without findings so far",
    ExitStatus.READER_GONE: "the reader of the output has gone, as in `harness devices | head`",
}


def oracles() -> str:
    """Return a table of all oracles, causes before consequences."""
    rows = ((code(oracle.name), escaped(oracle.promise)) for oracle in registry.ALL)
    return table(("oracle", "promise"), rows)


def devices() -> str:
    """Return a table of all GPUs."""
    titles = ("name", "GPU", "generation", "target", "SMs", "shared memory a block", "L2", "beyond L2")
    return table(titles, map(_device, catalogue.devices()))


def _device(device: DeviceProfile) -> tuple[str, ...]:
    return (
        code(device.slug),
        device.name.removeprefix("NVIDIA "),
        device.architecture,
        device.arch_name,
        str(device.sm_count) if device.vendor is Vendor.NVIDIA else device.size,
        f"{device.shared_bytes_per_block / KIB:g} KiB",
        f"{device.l2_bytes / MIB:g} MiB" + (f", in each of {device.xcd_count} XCDs" if device.xcd_count > 1 else ""),
        f"{device.mall_bytes / MIB:g} MiB" if device.mall_bytes else "",
    )


def exit_statuses() -> str:
    """Return a table of the exit statuses."""
    return table(("status", "meaning"), ((str(int(status)), MEANINGS[status]) for status in ExitStatus))
