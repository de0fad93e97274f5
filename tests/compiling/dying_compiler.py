"""A compiler's process that ends as the digest of the TTIR says; run as `python dying_compiler.py CACHE`."""

import os
import signal
import sys
import time

from harness import wire
from harness.model.kernel_build import BuildFacts, BuildRequest

for line in sys.stdin:
    request = wire.from_json(line, BuildRequest)
    match request.ttir:
        case "abort":
            sys.stderr.write("LLVM ERROR: unsupported constraint\n")
            sys.stderr.flush()
            os.abort()
        case "hang":
            time.sleep(1000)
        case "stops":
            sys.stdout.write('{"registers')
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGSTOP)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case _:
            sys.stdout.write(f"{wire.to_json(BuildFacts(registers_per_thread=32))}\n")
            sys.stdout.flush()
