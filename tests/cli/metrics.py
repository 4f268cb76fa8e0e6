"""What tests ask of a training with --metrics-port.

    metrics.py page PORT            the page, if it keeps to the format
    metrics.py follow PORT LOG ERR  pages of several steps, against the run log
    metrics.py bounds PORT          what must be refused or closed is
    metrics.py local PORT PID       it listens on 127.0.0.1 and nowhere else, in
                                    a thread of the lowest priority
    metrics.py ranks PORT N         pages of N ranks, until they have stepped
    metrics.py hammer PORT          four readers and a slow one until it ends
    metrics.py examples DIR HEADER  dashboard and configuration against metrics
"""
import contextlib
import json
import math
import os
import re
import socket
import sys
import threading
import time
import urllib.error
import urllib.request

PATIENCE_SEC = 30 * float(os.environ.get("PEN_SLOWNESS", "1"))

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def fetch(port, path="/metrics", method="GET", data=None):
    """Code, headers and body of an answer."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", method=method, data=data)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_SEC) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
NUMBER = r"NaN|[+-]Inf|[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? ({NUMBER})$")


def check_histogram(name, samples):
    counts = [v for n, _, v in samples if n == name + "_bucket"]
    bounds = [re.fullmatch(r'le="(.*)"', labels).group(1)
              for n, labels, _ in samples if n == name + "_bucket"]
    assert bounds[-1] == "+Inf", bounds
    reals = [float(b) for b in bounds]
    assert reals == sorted(set(reals)), bounds
    assert counts == sorted(counts), counts
    (count,) = [v for n, _, v in samples if n == name + "_count"]
    assert counts[-1] == count, (counts, count)
    assert any(n == name + "_sum" for n, _, _ in samples)


def parse(page):
    """Values by name, of a page that keeps to the text format 0.0.4: HELP and
    TYPE before the samples of a metric, each metric and sample once."""
    assert page.endswith("\n"), "the last line has no end"
    families, current = {}, None
    for line in page[:-1].split("\n"):
        if line.startswith("# HELP "):
            current = line.split(" ")[2]
            assert re.fullmatch(NAME, current), line
            assert current not in families, f"{current} comes twice"
            assert len(line.split(" ", 3)[3]) > 0, line
            families[current] = ["", []]
        elif line.startswith("# TYPE "):
            name, kind = line.split(" ")[2:]
            assert name == current and families[name] == ["", []], line
            assert kind in ("gauge", "counter", "histogram"), line
            assert name.endswith("_total") == (kind == "counter"), line
            families[name][0] = kind
        else:
            match = SAMPLE.match(line)
            assert match, f"not a sample: {line!r}"
            kind, samples = families[current]
            name, labels, value = match.groups()
            ends = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
            assert name in [current + end for end in ends], line
            assert (name, labels) not in [s[:2] for s in samples], line
            samples.append((name, labels, float(value)))
    for name, (kind, samples) in families.items():
        assert name.startswith("penstock_") and kind and samples, name
        if kind == "histogram":
            check_histogram(name, samples)
    return {name + (f"{{{labels}}}" if labels else ""): value
            for _, samples in families.values()
            for name, labels, value in samples}


def read_page(port):
    code, headers, page = fetch(port)
    assert code == 200, code
    assert headers["Content-Type"] == CONTENT_TYPE, headers
    return parse(page)


# What the run log calls it, and what it is there in our units.
LOGGED = {"penstock_loss": ("loss", 1), "penstock_grad_norm": ("grad_norm", 1),
          "penstock_learning_rate": ("lr", 1),
          "penstock_tokens_total": ("tokens", 1),
          "penstock_tokens_per_second": ("tokens_per_sec", 1),
          "penstock_step_seconds": ("step_ms", 1e-3),
          "penstock_share_of_peak_ratio": ("share_of_peak", 1),
          "penstock_memory_peak_bytes": ("memory_bytes", 1)}


def read_log(path, last):
    """The steps; waits for the last, which is shown before it is logged."""
    steps = {}
    while last not in steps:
        with open(path) as file:
            lines = file.read().split("\n")[1:-1]
        steps = {step["step"]: step for step in map(json.loads, lines)}
    return steps


def compare(page, log):
    step = int(page["penstock_step"])
    for name, (key, unit) in LOGGED.items():
        found, expected = page[name], unit * log[step][key]
        assert found == expected, f"step {step}: {name} is {found}, not {expected}"
    validated = [n for n in log if n <= step and log[n].get("val_loss") is not None]
    if validated:
        expected = log[max(validated)]["val_loss"]
        assert page["penstock_validation_loss"] == expected, step
    durations = sum(1e-3 * log[n]["step_ms"] for n in range(1, step + 1))
    assert page["penstock_step_duration_seconds_count"] == step
    assert math.isclose(page["penstock_step_duration_seconds_sum"], durations,
                        rel_tol=1e-9)
    return step


def follow(port, path, words):
    """Until a checkpoint and an evaluation were seen, ten steps at least."""
    pages, end = [], time.monotonic() + 60
    while time.monotonic() < end:
        page = read_page(port)
        if "penstock_step" in page:
            pages.append(page)
        if len(pages) >= 10 and "penstock_checkpoint_step" in page and \
                "penstock_validation_loss" in page and \
                page["penstock_step"] > pages[0]["penstock_step"]:
            break
    else:
        raise AssertionError(f"after a minute: {pages[-1:]}")
    log = read_log(path, pages[-1]["penstock_step"])
    steps = [compare(page, log) for page in pages]
    assert steps == sorted(steps) and steps[-1] > steps[0], steps
    last = pages[-1]
    assert last["penstock_checkpoint_step"] % 40 == 0
    assert 0 < last["penstock_checkpoint_step"] <= steps[-1]
    assert last["penstock_steps_planned"] == 100000000
    assert last["penstock_ranks"] == 1
    assert last["penstock_left_seconds"] > 0
    assert abs(last["penstock_last_step_timestamp_seconds"] - time.time()) < 60
    with open(words) as file:
        told = re.search(r"memory will be ([\d.]+) MB", file.read()).group(1)
    assert f"{1e-6 * last['penstock_memory_predicted_bytes']:.1f}" == told, told
    assert "penstock_bubble_ratio" not in last, "one rank waits for nobody"
    assert any(name.startswith('penstock_build_info{version="') for name in last)


def dial(port):
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SEC)


def received(connection):
    """All until the other side closes."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def check_refusals(port):
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        code, headers, _ = fetch(port, method=method, data=b"quit")
        assert code == 405 and headers["Allow"] == "GET, HEAD", (method, code)
    for path in ("/", "/other", "/metrics/", "/metrics/..", "/quit"):
        assert fetch(port, path)[0] == 404, path
    code, headers, body = fetch(port, method="HEAD")
    assert code == 200 and body == "" and int(headers["Content-Length"]) > 1000
    with dial(port) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        assert received(connection).startswith(b"HTTP/1.1 403 ")
    with dial(port) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 8192 + b"\r\n\r\n")
        answer = received(connection)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 431 "), answer[:80]
    with dial(port) as connection:
        connection.sendall(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
        assert b" 200 " not in received(connection)


def check_drip(port):
    """A byte now and then does not keep a connection for longer."""
    begin = time.monotonic()
    with dial(port) as connection:
        connection.settimeout(0.25)
        try:
            while time.monotonic() - begin < 10:
                connection.sendall(b"G")
                try:
                    if connection.recv(1) == b"":
                        break
                except TimeoutError:
                    pass
        except (BrokenPipeError, ConnectionResetError):
            pass
    took = time.monotonic() - begin
    assert 1.5 < took < 8, f"closed after {took:.2f} s"


def is_open(connection):
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    finally:
        connection.settimeout(30)


def read_when_free(port):
    """Places of connections that were ended are free a little later."""
    end = time.monotonic() + 10
    while True:
        try:
            return read_page(port)
        except OSError:
            assert time.monotonic() < end, "nobody is let in any more"


def refuse_fifth(port):
    """Whether the four are open when it is closed; their time ends later."""
    read_when_free(port)
    begin = time.monotonic()
    silent = [dial(port) for _ in range(4)]
    with dial(port) as fifth:
        fifth.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert received(fifth) == b""
    is_first = all(map(is_open, silent))
    for connection in silent:
        assert received(connection) == b""
        connection.close()
    took = time.monotonic() - begin
    assert 1.5 < took < 8, f"closed after {took:.2f} s"
    return is_first


def check_connections(port):
    """Never a fifth. Who gets no processor for two seconds, for the training
    goes first, closes all at once; so there are several tries."""
    assert any(refuse_fifth(port) for _ in range(6)), "never before the others"
    read_when_free(port)


def check_bounds(port):
    check_refusals(port)
    check_drip(port)
    check_connections(port)


def check_local(port, pid):
    """Of the sockets of this process, one listens on this port: 127.0.0.1."""
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            match = re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{name}"))
            inodes |= {match.group(1)} if match else set()
    listening = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/net/{table}") as file:
            rows = [line.split() for line in file.readlines()[1:]]
        listening += [row[1] for row in rows if row[3] == "0A" and row[9] in inodes]
    own = [address for address in listening if int(address.split(":")[1], 16) == port]
    assert own == [f"0100007F:{port:04X}"], listening
    nice = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/task/{thread}/stat") as file:
            nice.append(int(file.read().rpartition(")")[2].split()[16]))
    assert 19 in nice, nice


def check_ranks(port, count):
    page = {}
    while page.get("penstock_step", 0) < 3:
        page = read_page(port)
    assert page["penstock_ranks"] == count, page
    assert 0 < page["penstock_bubble_ratio"] < 1, page
    assert 0 < page["penstock_bubble_predicted_ratio"] < 1, page


def hammer(port):
    """Four read as fast as they can while a fifth drips; prints the pages."""
    counts, complaints = [0] * 4, []

    def read_on(i):
        while True:
            try:
                _, _, page = fetch(port)
                parse(page)
                counts[i] += 1
            except AssertionError as error:
                complaints.append(error)
                return
            except urllib.error.URLError as error:
                if isinstance(error.reason, ConnectionRefusedError):
                    return  # it has ended
            except OSError:
                pass  # sent away, for the fifth was faster
            except Exception as error:  # cut off in the middle, at the end
                if "IncompleteRead" not in repr(error) and \
                        "RemoteDisconnected" not in repr(error):
                    complaints.append(error)
                    return

    def drip():
        try:
            while True:
                with dial(port) as connection:
                    connection.sendall(b"GET /met")
                    received(connection)
        except OSError:
            pass

    threads = [threading.Thread(target=read_on, args=(i,)) for i in range(4)]
    threads.append(threading.Thread(target=drip, daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads[:4]:
        thread.join()
    assert not complaints, complaints
    print(sum(counts))


def check_examples(folder, header):
    with open(header) as file:
        text = file.read()
    names = {"penstock_" + name for name in
             re.findall(r'X\([A-Z_]+,\s*(?:\\\s*)?"([a-z_]+)"', text)}
    assert len(names) >= 15, names
    names |= {"penstock_build_info"} | {"penstock_step_duration_seconds" + end
                                        for end in ("_bucket", "_sum", "_count")}
    with open(os.path.join(folder, "dashboard.json")) as file:
        board = json.load(file)
    assert board["schemaVersion"] >= 36 and board["title"] and board["uid"]
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    asked = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        assert panel["type"] and panel["title"] and at["x"] + at["w"] <= 24
        for target in panel["targets"]:
            found = set(re.findall(r"penstock_[a-z_]+", target["expr"]))
            assert found, target
            asked |= found
    assert asked <= names, f"there is no {asked - names}"
    for name in ("loss", "tokens_per_second", "step_seconds", "memory_peak_bytes",
                 "memory_predicted_bytes", "bubble_ratio", "left_seconds"):
        assert "penstock_" + name in asked, name
    with open(os.path.join(folder, "prometheus.yml")) as file:
        check_yaml(file.read())


def check_yaml(text):
    """PyYAML judges where it is there; the addresses are this machine's."""
    assert "\t" not in text
    targets = re.findall(r'"([\w.]+:\d+)"', text)
    assert targets and all(t.startswith("127.0.0.1:") for t in targets), targets
    try:
        import yaml
    except ImportError:
        return
    (job,) = yaml.safe_load(text)["scrape_configs"]
    assert job["static_configs"][0]["targets"] == targets, job


def main():
    verb, args = sys.argv[1], sys.argv[2:]
    if verb == "examples":
        check_examples(*args)
        return
    port = int(args[0])
    verbs = {"page": lambda: print(read_page(port)),
             "follow": lambda: follow(port, args[1], args[2]),
             "bounds": lambda: check_bounds(port),
             "local": lambda: check_local(port, int(args[1])),
             "ranks": lambda: check_ranks(port, int(args[1])),
             "hammer": lambda: hammer(port)}
    verbs[verb]()


if __name__ == "__main__":
    main()
