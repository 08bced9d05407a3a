"""A page in headless Chromium, driven over its DevTools protocol; skipped where there is no Chromium."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
)


class Page:
    """One tab: evaluates JavaScript, moves the mouse, keeps console errors."""

    def __init__(self, socket: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._socket, self._loop, self._number = socket, loop, 0
        self.errors: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        message = json.dumps({"id": self._number, "method": method, "params": parameters})
        return self._loop.run_until_complete(asyncio.wait_for(self._ask(message, self._number), 60))

    async def _ask(self, message: str, number: int) -> Any:
        await self._socket.write_message(message)
        while True:
            answer = json.loads(await self._socket.read_message())
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(answer["error"])
                return answer["result"]
            self._listen(answer)

    def _listen(self, event: dict[str, Any]) -> None:
        details = event.get("params", {})
        if event["method"] == "Runtime.exceptionThrown":
            self.errors.append(str(details["exceptionDetails"].get("exception", details).get("description")))
        elif event["method"] == "Log.entryAdded" and details["entry"]["level"] == "error":
            self.errors.append(details["entry"]["text"])
        elif event["method"] == "Runtime.consoleAPICalled" and details["type"] == "error":
            self.errors.append(str(details["args"]))
        elif event["method"] == "Network.requestWillBeSent":
            address = details["request"]["url"]
            if not address.startswith(("file:", "data:", "about:", "blob:")):
                self.errors.append(f"asked the network for {address}")

    def size(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def open(self, path: Path) -> float:
        """Load a file; returns the seconds until everything on it is drawn."""
        start = time.monotonic()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.until("document.readyState === 'complete'")
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return time.monotonic() - start

    def evaluate(self, script: str) -> Any:
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"].get("description"))
        return result["result"].get("value")

    def until(self, script: str, seconds: float = 30) -> None:
        end = time.monotonic() + seconds
        while not self.evaluate(script):
            if time.monotonic() > end:
                raise TimeoutError(script)
            time.sleep(0.05)

    def move(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self, path: Path) -> None:
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))


@pytest.fixture(scope="session")
def browser() -> Iterator[Callable[[], Page]]:
    """A function that opens a tab."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium)")
    pytest.importorskip("tornado", reason="needs tornado's websocket client (pip install tornado)")
    from tornado.websocket import websocket_connect

    loop = asyncio.new_event_loop()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        arguments = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            port = Path(profile) / "DevToolsActivePort"
            end = time.monotonic() + 60
            while not port.exists() or len(port.read_text().splitlines()) < 2:
                if time.monotonic() > end or process.poll() is not None:
                    pytest.skip("Chromium does not start here")
                time.sleep(0.05)
            number = port.read_text().splitlines()[0]

            def tab() -> Page:
                import urllib.request

                asked = urllib.request.Request(f"http://127.0.0.1:{number}/json/new?about:blank", method="PUT")
                with urllib.request.urlopen(asked) as answer:
                    address = json.load(answer)["webSocketDebuggerUrl"]
                socket = loop.run_until_complete(_connect(websocket_connect, address))
                return Page(socket, loop)

            yield tab
        finally:
            process.kill()
            process.wait()
            loop.close()


async def _connect(connect: Any, address: str) -> Any:
    return await connect(address, max_message_size=256 * 1024 * 1024)


@pytest.fixture
def page(browser: Callable[[], Page]) -> Page:
    """A fresh tab."""
    return browser()
