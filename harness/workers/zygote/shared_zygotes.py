"""The fork servers that have loaded torch, Triton and an engine, and wear no device: pools may have them in common.

Loading takes seconds, and depends on neither device nor suites: so whoever opens one pool after another keeps these.
"""

import threading
from itertools import count

from harness.workers.folder import PoolFolder
from harness.workers.spec import ZygoteSpec
from harness.workers.zygote.server import SharedZygote


class SharedZygotes:
    """One server for each ground that is asked for, started when it first forks.  Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = count()
        self._folders: dict[str, PoolFolder] = {}
        self._servers: dict[ZygoteSpec, SharedZygote] = {}

    def __len__(self) -> int:
        return len(self._servers)

    def of(self, ground: ZygoteSpec) -> SharedZygote:
        """The server of this ground."""
        with self._lock:
            if ground not in self._servers:
                if ground.scratch not in self._folders:
                    self._folders[ground.scratch] = PoolFolder(ground.scratch)
                self._servers[ground] = SharedZygote(ground, self._folders[ground.scratch], next(self._numbers))
            return self._servers[ground]

    def close(self) -> None:
        """End them all and remove their files; the servers and workers forked from them are their pools' to end."""
        with self._lock:
            for server in self._servers.values():
                server.close()
            for folder in self._folders.values():
                folder.remove()
            self._servers.clear()
            self._folders.clear()
