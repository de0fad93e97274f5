"""`harness devices`."""

import argparse

from harness import catalogue
from harness.cli.command import ExitStatus, Parser


def run(options: argparse.Namespace) -> ExitStatus:
    """List the GPUs of the catalogue."""
    del options
    known = catalogue.devices()
    slug = max(len(device.slug) for device in known)
    print(f"{'device':<{slug}}  {'arch':<9}  {'target':<6}  {'SMs':>4}  {'shared':>7}  {'L2':>7}  name")
    for device in known:
        shared, cache = f"{device.shared_bytes_per_block // 1024} KiB", f"{device.l2_bytes // 2**20} MiB"
        print(
            f"{device.slug:<{slug}}  {device.architecture:<9}  {device.arch_name:<7}  {device.sm_count:>4}  "
            f"{shared:>7}  {cache:>7}  {device.name}"
        )
    return ExitStatus.CLEAN


def add_options(parser: Parser) -> None:
    parser.epilog = """\
--device takes a name of the first column, an architecture or a compile target.

examples:
  harness devices
  harness fuzz fla:norm --with fla-core==0.6.0 --device rtx-5090,blackwell,sm_90
"""
