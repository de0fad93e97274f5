"""Headless Chromium, driven over its own debugging pipe: https://chromedevtools.github.io/devtools-protocol/."""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome", "chrome")
INSTALL = "make browser"
LIMIT_S = 60.0
ABOVE_STANDARD_FDS = 10
AT_3_AND_4 = """
import os, sys
reads, writes, *command = sys.argv[1:]
os.dup2(int(reads), 3)
os.dup2(int(writes), 4)
os.execv(command[0], command)
"""
"""Chromium reads commands from descriptor 3 and writes its answers to 4."""


def find() -> str | None:
    """The executable, if there is one; HARNESS_CHROMIUM names another."""
    named = os.environ.get("HARNESS_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page of one browser, which ends with the context."""

    def __init__(self, executable: str, folder: Path) -> None:
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        reads, writes = (fcntl.fcntl(fd, fcntl.F_DUPFD, ABOVE_STANDARD_FDS) for fd in (theirs_in, theirs_out))
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-c", AT_3_AND_4, str(reads), str(writes), executable),
                *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
                *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
                *("--disable-quic", "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"),
            ],
            pass_fds=(reads, writes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for fd in (theirs_in, theirs_out, reads, writes):
            os.close(fd)
        self._in, self._out = ours_in, ours_out
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        """Everything that the page reported by itself, in order."""

    def __enter__(self) -> Self:
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.prefer("light")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._out)
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._in)

    def open(self, url: str) -> None:
        """Load a page and wait until it has loaded."""
        self.events.clear()
        self.ask("Page.navigate", url=url)
        self._wait_until_loaded()

    def resize(self, width: int, height: int = 900) -> None:
        """The size of the window, in CSS pixels."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme: str) -> None:
        """`light` or `dark`.  Nothing moves slowly, so that a test need not wait."""
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        self.ask(
            "Emulation.setEmulatedMedia", features=[{"name": name, "value": value} for name, value in features.items()]
        )

    def value(self, expression: str) -> Any:
        """What a JavaScript expression comes to, as JSON."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until a JavaScript expression is true: what a click starts may end after it."""
        self.value(
            f"new Promise(done => {{ const look = () => ({expression}) ? done(1) : setTimeout(look); look(); }})"
        )

    def click(self, selector: str) -> None:
        """Click where the element is drawn, as a person does; something may lie over it."""
        box = self.value(
            f"(one => {{ one.scrollIntoView({{block: 'center', behavior: 'instant'}}); "
            f"const box = one.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})"
            f"(document.querySelector({json.dumps(selector)}))"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def follow(self, selector: str) -> None:
        """Click a link to another page and wait until that has loaded: no command may be under way meanwhile."""
        self.events.clear()
        self.click(selector)
        self._wait_until_loaded()

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """A PNG of the page, or of the window."""
        answer = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def requested(self) -> list[str]:
        """The addresses requested since the page was opened."""
        return [
            event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[str]:
        """Everything that a console would show."""
        methods = {"Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"}
        return [json.dumps(event) for event in self.events if event["method"] in methods]

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command, and its answer; what the page reports meanwhile is kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _wait_until_loaded(self) -> None:
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + LIMIT_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"Chromium says nothing for {LIMIT_S:g} s"
            read = os.read(self._in, 1 << 20)
            assert read, "Chromium has ended"
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)


if __name__ == "__main__":
    sys.exit(find() is None)
