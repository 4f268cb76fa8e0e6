"""Hosts of islands: network namespaces around a router that drops what is cut. Needs root."""
import atexit
import os
import subprocess

UNIQUE = f"pen{os.getpid()}"


def can_make_hosts():
    is_possible = os.geteuid() == 0 and subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode == 0
    if not is_possible:
        print("network namespaces need root")
    return is_possible


class Hosts:
    """Hosts 10.215.N.2 around one router, which drops what is cut."""

    def __init__(self, names):
        self.names = names
        self.dropped = set()
        atexit.register(self.clean)
        self.ip(f"netns add {UNIQUE}hub")
        for i in range(len(names)):
            self.ip(f"netns add {UNIQUE}n{i}")
            self.ip(f"link add eth0 netns {UNIQUE}n{i} type veth peer name port{i} netns {UNIQUE}hub")
            self.batch(f"{UNIQUE}n{i}", f"addr add 10.215.{i}.2/30 dev eth0\nlink set lo up\nlink set eth0 up\n"
                       f"route add default via 10.215.{i}.1")
            self.batch(f"{UNIQUE}hub", f"addr add 10.215.{i}.1/30 dev port{i}\nlink set port{i} up")
        self.ip(f"netns exec {UNIQUE}hub sh -c", "echo 1 >/proc/sys/net/ipv4/ip_forward")

    def ip(self, words, *more):
        subprocess.run(["ip", *words.split(), *more], check=True, capture_output=True)

    def batch(self, space, lines):
        subprocess.run(["ip", "-n", space, "-batch", "-"], input=lines + "\n", text=True, check=True, capture_output=True)

    def clean(self):
        for space in [f"{UNIQUE}hub"] + [f"{UNIQUE}n{i}" for i in range(len(self.names))]:
            subprocess.run(["ip", "netns", "del", space], capture_output=True)

    def number(self, name):
        return self.names.index(name.replace("etcd", "coordinator"))

    def address(self, name):
        return f"10.215.{self.number(name)}.2"

    def inside(self, name):
        return ["ip", "netns", "exec", f"{UNIQUE}n{self.number(name)}" if name in self.names or name[:4] == "etcd" else f"{UNIQUE}hub"]

    def drop(self, pairs):
        """From now on just these (from, to)."""
        def rule(verb, pair):
            return f"rule {verb} from {self.address(pair[0])} to {self.address(pair[1])} blackhole"
        changes = [rule("add", pair) for pair in pairs - self.dropped] + [rule("del", pair) for pair in self.dropped - pairs]
        if changes:
            self.batch(f"{UNIQUE}hub", "\n".join(changes))
        self.dropped = set(pairs)

    def limit(self, name, rate):
        """What this host sends and gets, for example 10mbit."""
        i = self.number(name)
        for space, device in ((f"{UNIQUE}n{i}", "eth0"), (f"{UNIQUE}hub", f"port{i}")):
            subprocess.run(["tc", "-n", space, "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, "burst", "64kb", "latency",
                            "200ms"], check=True, capture_output=True)
