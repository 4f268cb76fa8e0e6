"""Servers of one etcd on loopback, as processes of a Ring, with TLS between them and to those who ask."""
import base64
import json
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request

from rig import SLOWNESS, free_ports


def is_there():
    return shutil.which("etcd") is not None


class Etcd:
    def __init__(self, ring, servers=3, options=(), address=lambda name: "127.0.0.1"):
        self.ring, self.options = ring, options
        self.hosts = [address(f"etcd-{i}") for i in range(servers)]
        self.folder = ring.work / "etcd"
        self.folder.mkdir()
        ports = free_ports(2 * servers)
        self.clients, self.peers = ports[:servers], ports[servers:]
        self.make_certificates()
        self.tls = ssl.create_default_context(cafile=self.folder / "ca.pem")
        self.tls.load_cert_chain(self.folder / "node.pem", self.folder / "node.key")
        names = ",".join(f"{host}:{port}" for host, port in zip(self.hosts, self.clients))
        ring.store = f"etcds://{names}/run?ca={self.folder}/ca.pem&cert={self.folder}/node.pem&key={self.folder}/node.key"
        ring.etcd = self
        for i in range(servers):
            self.start(i)
        limit = time.monotonic() + 120 * SLOWNESS
        while ring.record()["round"] < 0:
            if time.monotonic() > limit:
                ring.fail("etcd did not start")
            time.sleep(0.1)

    def make_certificates(self):
        """One authority, and one certificate for all servers and all who ask."""
        def openssl(*words):
            subprocess.run(["openssl", *map(str, words)], cwd=self.folder, check=True, capture_output=True)
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key", "-out", "ca.pem",
                "-subj", "/CN=authority", "-days", "30")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "node.key", "-out", "node.csr",
                "-subj", "/CN=node")
        (self.folder / "names").write_text("subjectAltName=" + ",".join(f"IP:{host}" for host in set(self.hosts)) + "\nextendedKeyUsage=serverAuth,clientAuth\n")
        openssl("x509", "-req", "-in", "node.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "node.pem", "-days", "30",
                "-extfile", "names")

    def data(self, number):
        return self.folder / f"data-{number}"

    def start(self, number):
        own, peer = f"https://{self.hosts[number]}:{self.clients[number]}", f"https://{self.hosts[number]}:{self.peers[number]}"
        cluster = ",".join(f"e{i}=https://{host}:{port}" for i, (host, port) in enumerate(zip(self.hosts, self.peers)))
        files = [f"--{who}{what}={self.folder}/{file}" for who in ("", "peer-")
                 for what, file in (("cert-file", "node.pem"), ("key-file", "node.key"), ("trusted-ca-file", "ca.pem"))]
        self.ring.start(f"etcd-{number}", "etcd", "--name", f"e{number}", "--data-dir", self.data(number), "--listen-client-urls", own,
                        "--advertise-client-urls", own, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                        "--initial-cluster", cluster, "--heartbeat-interval", 100, "--election-timeout", 1000, "--client-cert-auth",
                        "--peer-client-cert-auth", "--logger", "zap", "--log-level", "error", *files, *self.options)

    def signal(self, number, which):
        self.ring.running[f"etcd-{number}"].send_signal(which)

    def ask(self, number, path, body):
        """Of one server by its JSON interface; None: no answer."""
        request = urllib.request.Request(f"https://{self.hosts[number]}:{self.clients[number]}/v3/{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=5, context=self.tls) as answer:
                return json.load(answer)
        except (urllib.error.URLError, OSError):
            return None

    def leader(self):
        """Number and id of the server that leads, and the ids of all."""
        ids, leads = {}, None
        for i in range(len(self.clients)):
            answer = self.ask(i, "maintenance/status", {})
            if answer is not None:
                ids[i], leads = answer["header"]["member_id"], answer["leader"]
        return next((i for i in ids if ids[i] == leads), None), ids

    def revision(self):
        return int(self.ask(0, "kv/range", {"key": base64.b64encode(b"x").decode()})["header"]["revision"])
