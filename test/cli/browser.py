"""A page in Chromium without a window, which is told what to do over two pipes."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium-headless-shell", "chromium")
# The tests may be root's, who gets no sandbox. Nothing but a file is loaded.
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--remote-debugging-pipe",
]
# Where Chromium reads and writes messages.
IN, OUT = 3, 4
# Above these, so that none is overwritten by another.
FIRST_FREE = 10
PART = 1 << 16


class Browser:
    """One process; each page is a tab in it, and pages follow each other."""

    def __init__(self, profile: Path) -> None:
        found = [path for name in NAMES if (path := shutil.which(name))]
        assert found, f"none of {', '.join(NAMES)} is there; tools/setup.sh test installs it"
        self.count = 0
        self.unread = b""
        self.events: list[dict[str, Any]] = []
        theirs_in, self.out = self._pipe()
        self.replies, theirs_out = self._pipe()
        command = [found[0], *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        actions = [
            (os.POSIX_SPAWN_DUP2, theirs_in, IN),
            (os.POSIX_SPAWN_DUP2, theirs_out, OUT),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        # Nothing of it is preloaded, and all of it ends together.
        environment = {**os.environ, "HOME": str(profile)}
        self.pid = os.posix_spawn(found[0], command, environment, file_actions=actions, setsid=True)
        os.close(theirs_in)
        os.close(theirs_out)
        self.session = ""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    @staticmethod
    def _pipe() -> tuple[int, int]:
        low = os.pipe()
        high = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE) for each in low]
        for each in low:
            os.close(each)
        return high[0], high[1]

    def close(self) -> None:
        os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.out)
        os.close(self.replies)

    def ask(self, method: str, **parameters: Any) -> Any:
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data) :]
        while True:
            reply = self._next()
            if reply.get("id") == self.count:
                assert "error" not in reply, f"{method}: {reply['error']}"
                return reply["result"]
            self.events.append(reply)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.unread:
            part = os.read(self.replies, PART)
            assert part, "Chromium has ended"
            self.unread += part
        message, _, self.unread = self.unread.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def open(self, path: Path, width: int = 1200, height: int = 900, scheme: str = "light") -> None:
        self.events.clear()
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.media("prefers-color-scheme", scheme)
        # The document is replaced at some time, perhaps by one of the same address.
        self.run("window.isOld = true")
        self.ask("Page.navigate", url=path.as_uri())
        done = "!window.isOld && document.readyState"
        while self.run(done) != "complete":
            time.sleep(0.01)

    def media(self, feature: str, value: str) -> None:
        features = [{"name": feature, "value": value}]
        self.ask("Emulation.setEmulatedMedia", features=features)

    def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise's, when it has one."""
        reply = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def press(self, key: str, code: int, text: str = "") -> None:
        common = {"key": key, "windowsVirtualKeyCode": code}
        self.ask("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **common)

    def click(self, selector: str) -> None:
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.ask(
                "Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left",
                clickCount=1,
            )  # fmt: skip

    def complaints(self) -> list[str]:
        """Errors of scripts and of the page's policy, and what it tried to load besides itself."""
        found = []
        for event in self.events:
            method, parameters = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown" or (
                method == "Log.entryAdded" and parameters["entry"]["level"] == "error"
            ):
                found.append(json.dumps(parameters))
            elif method == "Network.requestWillBeSent":
                url = parameters["request"]["url"]
                if not url.startswith("file:") or parameters["type"] != "Document":
                    found.append(f"loads {url}")
        return found

    def picture(self, path: Path) -> None:
        data = self.ask("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))
