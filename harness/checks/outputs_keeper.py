"""The keeper of a candidate's outputs: receives them in the parent, and writes them where no process of a check may.

A worker sends outputs through a socket as soon as the candidate has returned.  What is sent cannot be changed any more,
and what arrives first for a key counts.
"""

import re
import socket
import socketserver
import struct
import threading
from contextlib import suppress
from io import BufferedIOBase
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

KEY = re.compile(rb"[0-9a-z]{1,32}")
HEAD = struct.Struct("!32sQ")
"""In front of a message: its key, padded by zeros, and the length of what follows."""
MOST_BYTES = 1 << 29
"""The most that is kept of one check; further messages are dropped."""
SILENCE_S = 10.0
"""A sender that sends nothing for so long is left."""


class OutputsKeeper:
    """Receives outputs in the parent while the context lasts, and writes each to a file of the folder.

    It ends after the senders' processes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._free_bytes = MOST_BYTES
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        keep = self._keep

        class Receiver(socketserver.StreamRequestHandler):
            timeout = SILENCE_S

            def handle(self) -> None:
                with suppress(OSError):  # the sender's process ended, or is silent
                    keep(self.rfile)

        self._socket_folder = TemporaryDirectory(prefix="harness-")  # a socket's path is short
        self.address = str(Path(self._socket_folder.name, "outputs"))
        # One message at a time: a candidate that opens a thousand connections makes no thousand threads.
        self._server = socketserver.UnixStreamServer(self.address, Receiver)
        self._thread = threading.Thread(target=self._server.serve_forever, name="outputs-keeper", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._socket_folder.cleanup()

    def _keep(self, sent: BufferedIOBase) -> None:
        key, size = HEAD.unpack(sent.read(HEAD.size).ljust(HEAD.size, b"\0"))
        key = key.rstrip(b"\0")
        with self._lock:
            if not KEY.fullmatch(key) or size > self._free_bytes:
                return
            self._free_bytes -= size
        content = sent.read(size)
        with self._lock, suppress(FileExistsError):
            if len(content) == size:
                with (self._folder / key.decode()).open("xb") as file:
                    file.write(content)


def connected(address: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    return connection


def send(address: str, key: str, content: bytes) -> None:
    """Send one message, and wait until it is received: nobody can change it any more."""
    with connected(address) as connection, suppress(ConnectionError):  # a keeper that drops a message closes at once
        connection.sendall(HEAD.pack(key.encode(), len(content)) + content)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
