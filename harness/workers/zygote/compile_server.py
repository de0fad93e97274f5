"""A process that compiles kernels for a confined one, which may start no program: it gets texts and gives answers.

It is forked before the other process is confined, and ends with it.  It writes to the temporary folder of the pool
alone, where the other process does not, for a link there would send what it writes anywhere.
"""

import json
import os
import socket
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from harness import wire
from harness.engines.triton import build_resources, stage_process
from harness.model.device import Arch
from harness.model.kernel_resources import Resources
from harness.workers.supervision import confinement, linux

CACHE = "compilers"
GONE = "the process that compiles for a confined one has ended"


def compile_elsewhere() -> None:
    """Have another process compile what this one asks for from now on."""
    own, other = socket.socketpair()
    asking = os.getpid()
    if os.fork() == 0:
        own.close()
        _serve(other, asking)
    other.close()
    client = _Client(own)
    build_resources.state.elsewhere = client.resources
    stage_process.state.elsewhere = client.text


class _Client:
    """The asking side; several threads may ask."""

    def __init__(self, connection: socket.socket) -> None:
        self._stream = connection.makefile("rw", encoding="ascii")
        self._lock = threading.Lock()

    def resources(self, ttir: str, arch: Arch, options: Mapping[str, Any]) -> Resources:
        answer = self._answer(ttir, "", arch, options)
        return wire.from_json(answer["usage"], Resources) if answer else Resources.not_known(GONE)

    def text(self, ttir: str, stage: str, arch: Arch, options: Mapping[str, Any]) -> str:
        answer = self._answer(ttir, stage, arch, options) or {"error": GONE}
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["text"]

    def _answer(self, *request: object) -> dict[str, str]:
        """Return the answer; an empty one if the other process is gone."""
        with self._lock:
            try:
                self._stream.write(json.dumps(request, default=dict) + "\n")
                self._stream.flush()
                return json.loads(self._stream.readline() or "{}")
            except OSError:
                return {}


def _serve(connection: socket.socket, asking: int) -> NoReturn:
    try:
        linux.die_with(asking)
        folder = tempfile.gettempdir()
        os.environ["TRITON_CACHE_DIR"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(folder, CACHE))
        confinement.confine_files((folder,))
        stream = connection.makefile("rw", encoding="ascii")
        while line := stream.readline():
            stream.write(json.dumps(_compiled(*json.loads(line))) + "\n")
            stream.flush()
    finally:
        os._exit(0)


def _compiled(ttir: str, stage: str, arch: Arch, options: Mapping[str, Any]) -> dict[str, str]:
    if not stage:
        return {"usage": wire.to_json(build_resources.compile_resources(ttir, arch, options))}
    try:
        return {"text": stage_process.compiled_text(ttir, stage, arch, options)}
    except RuntimeError as error:
        return {"error": str(error)}
