"""A headless Chromium over the DevTools protocol, spoken through a pipe: no driver, no port, no dependency."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

#: How often a Chromium that does not come up is started, and how long each may take: now and then one hangs.
STARTS = 3
START_SECONDS = 60
#: The names under which Chromium is installed.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless_shell")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def find_chromium() -> str | None:
    """Return the path of a Chromium, None if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A browser with one page.

    Attributes
    ----------
    requests
        The addresses of everything that the page asked for.
    console
        Everything that the console said.
    """

    def __init__(self, chromium: str) -> None:
        self.requests: list[str] = []
        self.console: list[str] = []
        for start in range(STARTS):
            self._start(chromium)
            try:
                targets = self.call("Target.getTargets", seconds=START_SECONDS)["targetInfos"]
                break
            except OSError:  # it hangs, or has gone
                self._end()
                if start == STARTS - 1:
                    raise
        page = next(target for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def _start(self, chromium: str) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="explain-chromium-", ignore_cleanup_errors=True)
        to_child, self._out = os.pipe()
        self._in, from_child = os.pipe()
        command = f'exec "$@" 3<&{to_child} 4>&{from_child}'
        self._process = subprocess.Popen(
            [
                "bash",
                "-c",
                command,
                "chromium",
                chromium,
                *_FLAGS,
                f"--user-data-dir={self._profile.name}",
                "about:blank",
            ],
            pass_fds=(to_child, from_child),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_child)
        os.close(from_child)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self._loaded = False

    def _end(self) -> None:
        """End whatever is left of the browser: its processes form a group."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=20)
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._session = None
            self.call("Browser.close")
            self._process.wait(timeout=20)
        except (OSError, RuntimeError, subprocess.TimeoutExpired):
            pass
        finally:
            self._end()

    def call(self, method: str, *, seconds: float = 60, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result; each message may take that many seconds to come."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive(seconds)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def open(self, page: Path) -> None:
        """Open a file and wait until it is loaded."""
        self._loaded = False
        self.requests.clear()
        self.console.clear()
        self.call("Page.navigate", url=page.as_uri())
        while not self._loaded:
            self._receive()

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_for(self, script: str, seconds: float = 30) -> None:
        """Wait until a JavaScript expression is true."""
        deadline = time.monotonic() + seconds
        while not self.run(script):
            if time.monotonic() > deadline:
                raise TimeoutError(f"never true: {script}")
            time.sleep(0.02)

    def size(self, width: int, height: int) -> None:
        """Set the size of the window."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def system_colours(self, scheme: str) -> None:
        """Pretend that the system is ``light`` or ``dark``; colours change at once, without a transition."""
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        self.call(
            "Emulation.setEmulatedMedia", features=[{"name": name, "value": value} for name, value in features.items()]
        )

    def key(self, key: str, *, shift: bool = False, text: str | None = None) -> None:
        """Press and release a key."""
        parameters: dict[str, Any] = {"key": key, "modifiers": 8 if shift else 0}
        if key == "Enter":
            parameters |= {"windowsVirtualKeyCode": 13, "text": "\r"}
        if text or len(key) == 1:
            parameters["text"] = text or key
        self.call("Input.dispatchKeyEvent", type="keyDown", **parameters)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def type(self, text: str) -> None:
        """Type text where the focus is."""
        self.call("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """Click the middle of an element."""
        x, y = self.middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def wheel(self, selector: str, delta: float) -> None:
        """Turn the wheel over an element."""
        x, y = self.middle(selector)
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=delta)

    def middle(self, selector: str) -> tuple[float, float]:
        """Scroll to an element and return its middle in the window."""
        x, y = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect(); "
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        return x, y

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Write what the page looks like as a PNG file."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def _receive(self, seconds: float = 60) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("Chromium does not answer")
            part = os.read(self._in, 1 << 20)
            if not part:
                raise ConnectionError("Chromium went away")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        event: dict[str, Any] = json.loads(message)
        self._note(event.get("method", ""), event.get("params", {}))
        return event

    def _note(self, method: str, parameters: dict[str, Any]) -> None:
        match method:
            case "Page.loadEventFired":
                self._loaded = True
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Runtime.consoleAPICalled":
                self.console.append(json.dumps(parameters["args"]))
            case "Runtime.exceptionThrown":
                self.console.append(json.dumps(parameters["exceptionDetails"]))
            case "Log.entryAdded":
                self.console.append(parameters["entry"]["text"])
