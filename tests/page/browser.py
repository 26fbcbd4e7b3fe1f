"""A headless Chromium over its debugging pipe: no port, no driver program, no library."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PATIENCE = 60.0  # Seconds; of what takes a healthy process milliseconds, on a machine that may be busy.
READ_BYTES = 1 << 16
FIRST_HIGH_FD = 10  # Beyond the two that Chromium wants.


class Browser:
    def __init__(self):
        self._profile = tempfile.mkdtemp(prefix="diloco-page-")
        to_child, self._out = _pipe()
        self._in, from_child = _pipe()
        # As root Chromium has no sandbox; it opens no page but our own.
        flags = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
                 "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run", "--disable-background-networking",
                 "--disable-component-update", f"--user-data-dir={self._profile}", "about:blank"]
        self._log = open(os.path.join(self._profile, "log"), "wb")
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{to_child} 4>&{from_child}', "bash", "chromium", *flags],
            pass_fds=(to_child, from_child), stdout=self._log, stderr=self._log)
        os.close(to_child)
        os.close(from_child)
        self._buffer = b""
        self._next_id = 1
        self._pages = {}

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._out)
        os.close(self._in)
        self._log.close()
        shutil.rmtree(self._profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def new_page(self):
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = Page(self, session, target)
        self._pages[session] = page
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        return page

    def call(self, method, params=None, session=None, patience=PATIENCE):
        """The result of one command. Events that come before it go to their pages."""
        number = self._next_id
        self._next_id += 1
        message = {"id": number, "method": method, "params": params or {}}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + patience + 10
        while True:
            answer = self._read(deadline)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            page = self._pages.get(answer.get("sessionId"))
            if page and "method" in answer:
                page.take_event(answer["method"], answer["params"])

    def _read(self, deadline):
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0, deadline - time.monotonic()))
            piece = os.read(self._in, READ_BYTES) if ready else b""
            if not piece:
                with open(os.path.join(self._profile, "log"), errors="replace") as log:
                    raise RuntimeError("chromium does not answer:\n" + log.read()[-4000:])
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(text)


class Page:
    """One tab, and what it complained of and asked for since clear()."""

    def __init__(self, browser, session, target):
        self._browser = browser
        self._session = session
        self._target = target
        self.clear()

    def clear(self):
        self.complaints = []  # Exceptions, console errors and warnings, violations of the policy.
        self.failed_requests = []  # What the browser itself says of a request without an answer.
        self.requests = []

    def call(self, method, params=None, patience=PATIENCE):
        return self._browser.call(method, params, self._session, patience)

    def close(self):
        self._browser.call("Target.closeTarget", {"targetId": self._target})

    def take_event(self, method, params):
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(str([argument.get("value") for argument in params["args"]]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            entry = params["entry"]
            where = self.failed_requests if entry["source"] == "network" else self.complaints
            where.append(f"{entry['text']} {entry.get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def go(self, url):
        error = self.call("Page.navigate", {"url": url}).get("errorText")
        if error:
            raise RuntimeError(f"{url}: {error}")
        self.wait_for("document.readyState === 'complete'")

    def evaluate(self, expression, patience=PATIENCE):
        result = self.call("Runtime.evaluate", {"expression": expression, "returnByValue": True, "awaitPromise": True},
                           patience)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, condition, patience=PATIENCE):
        """Until a JavaScript expression is true; an AssertionError with what the page shows when it never is."""
        found = self.evaluate(f"""new Promise((resolve) => {{
            const end = performance.now() + {patience * 1000};
            const look = () => {{
                if ({condition}) resolve(true);
                else if (performance.now() > end) resolve(false);
                else setTimeout(look, 50);
            }};
            look();
        }})""", patience)
        if not found:
            shown = self.evaluate("document.body.innerText")
            raise AssertionError(f"never became true: {condition}\nThe page:\n{shown}")

    def text(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? null")

    def set_screen(self, width, height, dark=False):
        self.call("Emulation.setDeviceMetricsOverride",
                  {"width": width, "height": height, "screenWidth": width, "screenHeight": height,
                   "deviceScaleFactor": 1, "mobile": width < 700})
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        self.wait_for(f"screen.width === {width}")

    def screenshot(self, path, height=None):
        """The page from its top, `height` pixels or all of it."""
        size = self.evaluate("({width: innerWidth, height: document.scrollingElement.scrollHeight})")
        height = min(height or size["height"], size["height"])
        clip = {"x": 0, "y": 0, "width": size["width"], "height": height, "scale": 1}
        answer = self.call("Page.captureScreenshot", {"format": "png", "clip": clip, "captureBeyondViewport": True})
        with open(path, "wb") as out:
            out.write(base64.b64decode(answer["data"]))


def _pipe():
    ends = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, FIRST_HIGH_FD) for end in ends]
    for end in ends:
        os.close(end)
    return high
