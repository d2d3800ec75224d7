"""A real Chromium, driven over its DevTools protocol: pages as people use them, with what the console says about it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Literal

import aiohttp

from gateway.running.children import leashed

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--lang=en-US",
    "--remote-debugging-port=0",
    # Nothing but this machine: a page that asks for more gets an error, and the error fails the test.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE localhost , EXCLUDE 127.0.0.1",
)
KEYS = {
    "Enter": {"code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"},
    "Tab": {"code": "Tab", "windowsVirtualKeyCode": 9},
    "Escape": {"code": "Escape", "windowsVirtualKeyCode": 27},
    "Space": {"key": " ", "code": "Space", "windowsVirtualKeyCode": 32, "text": " "},
}


def find_program() -> str | None:
    """Where Chromium is, if it is installed."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


@contextlib.contextmanager
def running(program: str, profile: Path) -> Iterator[str]:
    """A Chromium with an empty profile; the address of its DevTools."""
    log = (profile.parent / f"{profile.name}.log").open("wb")
    with log:
        process = subprocess.Popen(
            leashed([program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]),
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )
    try:
        port_file, deadline = profile / "DevToolsActivePort", time.monotonic() + 30
        while not (port_file.exists() and len(lines := port_file.read_text().split()) == 2):
            assert process.poll() is None, "chromium did not start"
            assert time.monotonic() < deadline, "chromium did not open its DevTools"
            time.sleep(0.02)
        yield f"ws://127.0.0.1:{lines[0]}{lines[1]}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


class Browser:
    """One connection to a running Chromium. Each `visitor` has cookies and storage of its own."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.pages: dict[str, Page] = {}

    async def ask(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol. Raises `AssertionError` with what Chromium says."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": parameters}
        await self._socket.send_json(message | ({"sessionId": session} if session else {}))
        return await asyncio.wait_for(answer, 20)

    async def visitor(self) -> Visitor:
        context = await self.ask("Target.createBrowserContext", disposeOnDetach=True)
        return Visitor(self, context["browserContextId"])

    async def listen(self) -> None:
        async for message in self._socket:
            said = json.loads(message.data)
            if answer := self._answers.pop(said.get("id", 0), None):
                if answer.done():
                    continue
                if "error" in said:
                    answer.set_exception(AssertionError(said["error"]["message"]))
                else:
                    answer.set_result(said["result"])
            elif page := self.pages.get(said.get("sessionId", "")):
                page.heard(said["method"], said["params"])


class Visitor:
    """Somebody with a browser of their own."""

    def __init__(self, browser: Browser, context: str) -> None:
        self._browser = browser
        self._context = context

    async def page(self, url: str, *, width: int = 1440, height: int = 900) -> Page:
        """A new tab, loaded."""
        target = await self._browser.ask("Target.createTarget", url="about:blank", browserContextId=self._context)
        attached = await self._browser.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page = self._browser.pages[attached["sessionId"]] = Page(self._browser, attached["sessionId"])
        for domain in ("Page", "Runtime", "Log", "Network"):
            await page.ask(f"{domain}.enable")
        await page.ask("Emulation.setFocusEmulationEnabled", enabled=True)
        await page.resize(width, height)
        await page.go(url)
        return page


class Page:
    """One tab. `errors` is what its console complained about: scripts, CSP, refused or failed requests."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        self._loaded = asyncio.Event()
        self.errors: list[str] = []
        self.expected: re.Pattern[str] | None = None
        """Failed requests that a test is about, by what the console says of them; these are no errors."""
        self.requests: list[str] = []

    async def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        return await self._browser.ask(method, self._session, **parameters)

    def heard(self, method: str, said: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded.set()
        elif method == "Runtime.exceptionThrown":
            details = said["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and said["type"] in {"error", "assert"}:
            self.errors.append(str([one.get("value", one.get("description")) for one in said["args"]]))
        elif method == "Log.entryAdded" and said["entry"]["level"] == "error":
            complaint = f"{said['entry']['text']} {said['entry'].get('url', '')}"
            if not (self.expected and self.expected.search(complaint)):
                self.errors.append(complaint)
        elif method == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])

    async def go(self, url: str) -> None:
        self._loaded.clear()
        answer = await self.ask("Page.navigate", url=url)
        assert not answer.get("errorText"), answer
        if "loaderId" in answer:  # else only the fragment has changed
            await asyncio.wait_for(self._loaded.wait(), 60)

    async def reload(self) -> None:
        self._loaded.clear()
        await self.ask("Page.reload")
        await asyncio.wait_for(self._loaded.wait(), 60)

    async def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is waited for."""
        answer = await self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def until(self, expression: str, timeout_s: float = 60) -> Any:
        """The value of an expression as soon as it is truthy; true for a node. Between two documents it goes on."""
        deadline = time.monotonic() + timeout_s
        while True:
            with contextlib.suppress(AssertionError):
                if value := await self.evaluate(f"((v) => v instanceof Node || v)({expression})"):
                    return value
            if time.monotonic() > deadline:
                shown = await self.evaluate("document.body.innerText")
                raise AssertionError(f"never came: {expression}\nshown: {shown}\nerrors: {self.errors}")
            await asyncio.sleep(0.02)

    async def until_shown(self, text: str, timeout_s: float = 60) -> None:
        await self.until(f"document.querySelector('main').innerText.includes({json.dumps(text)})", timeout_s)

    async def texts(self, selector: str) -> list[str]:
        found = await self.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map(n => n.innerText)")
        return [str(text) for text in found]

    async def click(self, selector: str) -> None:
        """A press of the mouse in the middle of what is shown there, once nothing moves any more and scripts listen."""
        place = await self.until(
            f"(() => {{ const n = document.querySelector({json.dumps(selector)});"
            "if (!n || document.readyState !== 'complete') return null;"
            "n.scrollIntoView({block: 'nearest', behavior: 'instant'}); const b = n.getBoundingClientRect();"
            "return b.width ? [b.x + b.width / 2, b.y + b.height / 2] : null; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.ask(
                "Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", buttons=1, clickCount=1
            )

    async def choose(self, selector: str, *files: Path) -> None:
        """What a person does in the dialog of a file field."""
        asked = f"document.querySelector({json.dumps(selector)})"
        field = (await self.ask("Runtime.evaluate", expression=asked))["result"]["objectId"]
        await self.ask("DOM.setFileInputFiles", objectId=field, files=[str(file) for file in files])

    async def drop(self, selector: str, name: str, content: str) -> None:
        """Drag a file over what is shown there, and let it go."""
        await self.evaluate(
            f"""(() => {{
              const carried = new DataTransfer();
              carried.items.add(new File([{json.dumps(content)}], {json.dumps(name)}, {{ type: "text/csv" }}));
              for (const kind of ["dragenter", "dragover", "drop"]) {{
                const event = new DragEvent(kind, {{ dataTransfer: carried, bubbles: true, cancelable: true }});
                document.querySelector({json.dumps(selector)}).dispatchEvent(event);
              }}
            }})()"""
        )

    async def type(self, text: str) -> None:
        await self.ask("Input.insertText", text=text)

    async def press(self, key: str, *, shift: bool = False) -> None:
        known = {"key": key, **KEYS[key], "modifiers": 8 if shift else 0}
        await self.ask("Input.dispatchKeyEvent", type="keyDown" if "text" in known else "rawKeyDown", **known)
        await self.ask(
            "Input.dispatchKeyEvent", type="keyUp", **{name: known[name] for name in known if name != "text"}
        )

    async def resize(self, width: int, height: int) -> None:
        await self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        # A press before the new size is painted would land where things stood before.
        await self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    async def prefer(
        self, *, scheme: Literal["light", "dark"] = "light", motion: Literal["reduce", "no-preference"] = "reduce"
    ) -> None:
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": motion}
        await self.ask(
            "Emulation.setEmulatedMedia",
            features=[{"name": name, "value": value} for name, value in features.items()],
        )

    async def speak(self, language: str) -> None:
        """Ask for pages in this language from now on."""
        await self.ask("Network.setExtraHTTPHeaders", headers={"Accept-Language": language})

    async def cut_off(self, is_cut_off: bool) -> None:
        """No network, or again."""
        await self.ask(
            "Network.emulateNetworkConditions",
            offline=is_cut_off,
            latency=0,
            downloadThroughput=-1,
            uploadThroughput=-1,
        )

    async def screenshot(self) -> bytes:
        """A PNG of what is seen."""
        return base64.b64decode((await self.ask("Page.captureScreenshot", format="png"))["data"])

    async def accessibility(self) -> list[dict[str, Any]]:
        """What a screen reader is given: `role`, `name` and properties of each node that it does not skip."""
        nodes = (await self.ask("Accessibility.getFullAXTree"))["nodes"]
        return [
            {
                "role": node["role"]["value"],
                "name": node.get("name", {}).get("value", ""),
                **{one["name"]: one["value"].get("value") for one in node.get("properties", ())},
            }
            for node in nodes
            if not node["ignored"]
        ]


@contextlib.asynccontextmanager
async def connected(devtools: str) -> AsyncIterator[Browser]:
    """A connection to a running Chromium."""
    async with aiohttp.ClientSession() as http, http.ws_connect(devtools, max_msg_size=0) as socket:
        browser = Browser(socket)
        listening = asyncio.create_task(browser.listen())
        try:
            yield browser
        finally:
            listening.cancel()
            await asyncio.wait([listening])
