"""Chromium by the DevTools protocol, over a pair of pipes (no web socket)."""
import base64
import functools
import http.server
import json
import os
import select
import shutil
import subprocess
import tempfile
import threading
import time


def browser():
    """Path of a Chromium, or None."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path:
            return path
    return None


class Browser:
    """One headless Chromium with a folder of its own."""

    def __init__(self):
        self.folder = tempfile.mkdtemp()
        down_read, down_write = os.pipe()
        up_read, up_write = os.pipe()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu",
                   "--remote-debugging-pipe", "--no-first-run",
                   "--disable-background-networking",
                   "--disable-component-update", "--disable-sync",
                   "--hide-scrollbars", "--user-data-dir=" + self.folder]
        command = 'exec "$@" 3<&%d 4>&%d' % (down_read, up_write)
        self.process = subprocess.Popen(
            ["bash", "-c", command, "sh", browser()] + options,
            pass_fds=(down_read, up_write), stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL)
        os.close(down_read)
        os.close(up_write)
        self.write_fd = down_write
        self.read_fd = up_read
        self.buffer = b""
        self.number = 0
        self.events = []

    def close(self):
        try:
            self.call("Browser.close")
        except Exception:
            self.process.kill()
        self.process.wait(10)
        os.close(self.write_fd)
        os.close(self.read_fd)
        shutil.rmtree(self.folder, ignore_errors=True)

    def receive(self, seconds):
        """The next message, or None when the time is over."""
        seconds *= float(os.environ.get("PEN_SLOWNESS", "1"))
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.read_fd], [], [], left)[0]:
                return None
            piece = os.read(self.read_fd, 1 << 20)
            if not piece:
                raise RuntimeError("the browser has ended")
            self.buffer += piece
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, session=None, seconds=60, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.write_fd, json.dumps(message).encode() + b"\0")
        seconds *= float(os.environ.get("PEN_SLOWNESS", "1"))
        end = time.monotonic() + seconds
        while True:
            answer = self.receive(max(0.0, end - time.monotonic()))
            if answer is None:
                raise RuntimeError(method + ": no answer")
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(method + ": " + str(answer["error"]))
                return answer["result"]
            self.events.append(answer)

    def page(self, width, height, **settings):
        return Page(self, width, height, **settings)


class Page:
    """One tab. Keeps requests and messages of the console."""

    def __init__(self, owner, width, height, dark=False, slowdown=1):
        self.owner = owner
        target = owner.call("Target.createTarget", url="about:blank")
        self.target = target["targetId"]
        self.session = owner.call("Target.attachToTarget", flatten=True,
                                  targetId=self.target)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        self.size(width, height)
        if dark:
            self.call("Emulation.setEmulatedMedia", features=[
                {"name": "prefers-color-scheme", "value": "dark"}])
        if slowdown > 1:
            self.call("Emulation.setCPUThrottlingRate", rate=slowdown)

    def call(self, method, seconds=60, **parameters):
        return self.owner.call(method, self.session, seconds, **parameters)

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width,
                  height=height, deviceScaleFactor=1, mobile=width < 500)

    def open(self, address):
        self.call("Page.navigate", url=address)

    def run(self, script, seconds=60):
        """Value of a JavaScript expression; promises are awaited."""
        answer = self.call("Runtime.evaluate", seconds, expression=script,
                           awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def until(self, script, seconds=120):
        """Waits until an expression is true."""
        seconds *= float(os.environ.get("PEN_SLOWNESS", "1"))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if self.run("!!(%s)" % script):
                    return
            except RuntimeError as problem:
                if "context" not in str(problem):
                    raise
            time.sleep(0.05)
        raise RuntimeError("not within %g s: %s" % (seconds, script))

    def key(self, name, code=0, text=None):
        settings = {"key": name, "code": name, "windowsVirtualKeyCode": code}
        if text:
            settings["text"] = text
        self.call("Input.dispatchKeyEvent", type="keyDown", **settings)
        self.call("Input.dispatchKeyEvent", type="keyUp", **settings)

    def picture(self, path, whole=True):
        shot = self.call("Page.captureScreenshot",
                         captureBeyondViewport=whole, format="png")
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def mine(self, *methods):
        return [event["params"] for event in self.owner.events
                if event.get("sessionId") == self.session
                and event["method"] in methods]

    def requests(self):
        return [event["request"]["url"]
                for event in self.mine("Network.requestWillBeSent")]

    def complaints(self):
        """Errors and warnings of the console, and uncaught exceptions."""
        found = [str(event["exceptionDetails"])
                 for event in self.mine("Runtime.exceptionThrown")]
        found += [str(event["args"])
                  for event in self.mine("Runtime.consoleAPICalled")
                  if event["type"] in ("error", "warning", "assert")]
        found += [event["entry"]["text"]
                  for event in self.mine("Log.entryAdded")
                  if event["entry"]["level"] in ("error", "warning")]
        return found

    def close(self):
        self.owner.call("Target.closeTarget", targetId=self.target)


def serve(folder):
    """Address of a server of files that ends with this process."""
    handler = functools.partial(Quiet, directory=folder)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return "http://127.0.0.1:%d/" % server.server_address[1]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *rest):
        pass
