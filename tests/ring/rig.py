"""Coordinators and islands as processes, for the tests of rings. The weights of an island are a vector of numbers (island.c).

    ring = Ring(build, islands=4)         keys and ports; nothing runs yet
    ring.start_coordinator(0); ring.start_island(2)
    ring.end("island-2")                  SIGKILL
    ring.record(), ring.until(...), ring.lineage()

A test ends with an exception or with fail(); then the last lines of all processes are printed."""
import atexit
import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
signal.signal(signal.SIGTERM, lambda *_: sys.exit("FAILED: ended by SIGTERM"))  # so that nothing is left running
SLOWNESS = float(os.environ.get("PEN_SLOWNESS", "1"))
PIPED = dict(capture_output=True, text=True)


PORTS = range(20000, 32000)  # below those that the kernel gives to connections of others
claims = []                  # while this process lives


def claim(port):
    """Whether no other test has it. A test may use a port long after it has looked whether it is free: a name in the same
    network says whose it is until then."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0penstock-test-port-{port}")
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        name.close()
        return False
    claims.append(name)
    return True


def free_ports(count):
    ports = []
    for port in random.SystemRandom().sample(PORTS, 200):
        if len(ports) < count and claim(port):
            ports.append(port)
    if len(ports) < count:
        sys.exit("FAILED: no free ports")
    return ports


class Ring:
    def __init__(self, build, islands, coordinators=1, patience="2", quorum=2, address=None, inside=None, replay=None):
        """replay: a journal of another run; address(NAME): where a node listens; inside(NAME): what its command begins with."""
        self.build = pathlib.Path(build).absolute()
        self.penstock = self.build / "penstock"
        self.work = pathlib.Path(tempfile.mkdtemp())
        self.keys = self.work / "keys"
        self.keys.mkdir()
        self.patience, self.quorum, self.replay, self.islands = patience, quorum, replay, islands
        self.store = f"journal:{self.work}/ring.journal"
        self.inside = inside or (lambda name: [])
        self.running = {}
        self.starts = collections.Counter()
        atexit.register(self.clean)
        names = [f"coordinator-{i}" for i in range(coordinators)] + [f"island-{i}" for i in range(islands)]
        self.addresses = ({name: address(name) for name in names} if address else
                          {name: f"127.0.0.1:{port}" for name, port in zip(names, free_ports(len(names)))})
        for name in names:
            self.make_key(name, self.addresses[name])
        self.make_key("operator-me")

    def clean(self):
        for process in self.running.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        self.running = {}
        shutil.rmtree(self.work, ignore_errors=True)

    def fail(self, words):
        for path in sorted(self.work.glob("*.err")):
            print(f"---- {path.name}\n" + "\n".join(path.read_text().splitlines()[-12:]), file=sys.stderr)
        sys.exit(f"FAILED: {words}")

    def make_key(self, name, address=None, public=True):
        words = [self.penstock, "ring", "key", self.work / f"{name}.key"] + (["--address", address] if address else [])
        line = subprocess.run(words, check=True, **PIPED).stdout
        if public:
            (self.keys / f"{name}.pub").write_text(line)

    def start(self, name, *words):
        """Its output goes on where that of the start before ended."""
        self.starts[name] += 1
        with open(self.work / f"{name}.out", "a") as out, open(self.work / f"{name}.err", "a") as err:
            self.running[name] = subprocess.Popen([*map(str, [*self.inside(name), *words])], stdout=out, stderr=err)

    def start_coordinator(self, number=0):
        name = f"coordinator-{number}"
        self.start(name, self.penstock, "ring", "coordinate", "--listen", self.addresses[name], "--key", self.work / f"{name}.key",
                   "--keys", self.keys, "--quorum", self.quorum, "--patience", self.patience + "s", "--store", self.store, *(["--replay", self.replay] if self.replay else []))

    def start_island(self, number, config=1, *more):
        name = f"island-{number}"
        self.start(name, self.build / "tests" / "ring_island", self.work / f"{name}.key", self.keys, self.work / f"folder-{number}",
                   config, self.patience, *more)

    def end(self, name, number=signal.SIGKILL):
        process = self.running.pop(name)
        process.send_signal(number)
        return process.wait(timeout=100)

    def operator(self, verb, *words, number=0):
        return subprocess.run([*self.inside("operator"), self.penstock, "ring", verb, self.addresses[f"coordinator-{number}"], *map(str, words), "--key",
                               self.work / "operator-me.key", "--keys", self.keys], **PIPED)

    def serving(self):
        """The coordinator that has said last that it serves; None: none has."""
        found = {}
        for path in self.work.glob("coordinator-*.err"):
            said = re.findall(r"this coordinator (serves|waits)", path.read_text())
            if said and said[-1] == "serves" and path.stem in self.running:
                found[path.stem] = path.stat().st_mtime
        return max(found, key=found.get) if found else None

    def record(self):
        """As the store has it; round -1: there is no answer."""
        asked = subprocess.run([*self.inside("operator"), self.penstock, "ring", "show", self.store, "--json"], **PIPED)
        return json.loads(asked.stdout)["record"] if asked.returncode == 0 else {"round": -1, "members": [], "revoked": []}

    def until(self, words, test, seconds=200):
        limit = time.monotonic() + seconds * SLOWNESS
        while time.monotonic() < limit:
            record = self.record()
            if test(record):
                return record
            time.sleep(0.1)
        self.fail(f"{words}: not within {seconds} s; {self.record()}")

    def rounds_go_on(self, words, members=None, count=2):
        begin = self.until(words, lambda record: record["round"] >= 0)["round"]
        return self.until(words, lambda record: record["round"] >= begin + count and (members is None or record["members"] == members))

    def comes_back(self, island):
        """All are members, and this one is among the contributors of a new round: until then the record may have it as the member
        that it was, and another one that stops leaves the others without a majority."""
        begin = self.until("it is back", lambda record: record["round"] >= 0)["round"]
        return self.until("it is back", lambda record: record["round"] > begin and len(record["members"]) == self.islands and
                          island in [it["island"] for it in record["contributors"]])

    def said(self, name, words, seconds=100):
        limit = time.monotonic() + seconds * SLOWNESS
        while time.monotonic() < limit:
            if re.search(words, (self.work / f"{name}.err").read_text()):
                return
            time.sleep(0.05)
        self.fail(f"{name} does not say '{words}'")

    def lineage(self):
        """The one hash of each round, and the newest round of each island."""
        hashes, newest = {}, {}
        for path in sorted(self.work.glob("island-*.out")):
            for line in path.read_text().splitlines():
                if not re.fullmatch("round [0-9]+ [0-9a-f]{64}", line):
                    continue
                number, found = line.split()[1:]
                if hashes.setdefault(int(number), found) != found:
                    self.fail(f"{path.stem}: another state in round {number}")
                newest[path.stem] = int(number)
        return hashes, newest

    def check_lineage(self, record, islands):
        """These islands hold the state of the record, or a later one; no round is missing, and there is one state for each."""
        self.until("islands hold what is committed",
                   lambda _: min(self.lineage()[1].get(f"island-{i}", 0) for i in islands) >= record["round"])
        hashes = self.lineage()[0]
        if sorted(hashes) != list(range(1, max(hashes) + 1)):
            self.fail("a round is missing")
        if hashes[record["round"]] != record["hash"]:
            self.fail("islands hold another state than the one that is committed")
        return max(hashes)
