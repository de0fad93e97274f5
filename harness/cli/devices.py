"""`harness devices` and `harness doctor`: what there is to work with."""

import argparse

from harness import __version__
from harness.cli.command import BROKEN, CLEAN
from harness.devices import catalogue
from harness.reports.doctor import examine


def devices(given: argparse.Namespace) -> int:
    """List the GPUs that a case can pretend to run on."""
    del given
    known = catalogue.devices()
    slug = max(len(device.slug) for device in known)
    print(f"{'device':<{slug}}  {'arch':<9}  {'target':<6}  {'SMs':>4}  {'shared':>7}  {'L2':>7}  name")
    for device in known:
        shared, cache = f"{device.shared_bytes_per_block // 1024} KiB", f"{device.l2_bytes // 2**20} MiB"
        print(
            f"{device.slug:<{slug}}  {device.architecture:<9}  sm_{device.arch:<3}  {device.sm_count:>4}  {shared:>7}  "
            f"{cache:>7}  {device.name}"
        )
    return CLEAN


def doctor(given: argparse.Namespace) -> int:
    """Say what is here, and how to get what is missing."""
    del given
    lacking = False
    print(f"kernel-harness {__version__}")
    for part in examine():
        if part.found:
            print(f"  {'CHECK' if part.is_doubtful else 'ok':<8} {part.name}: {part.found}")
        else:
            print(f"  {'MISSING' if part.needed else 'none':<8} {part.name}: {part.provide}")
            lacking |= part.needed
    return BROKEN if lacking else CLEAN
