#!/usr/bin/env python3
"""What TLS costs a memcached server: millrace with it beside millrace without, and both beside memcached with it and without.

    compare/tls.py MILLRACE [--pairs 6] [--slice 300ms] [--handshakes 400]

Needs openssl, and for the other half a memcached that was built with TLS (`memcached -h` names --enable-ssl); without one that half is left out, and
said so. Certificates (ECDSA P-256, an authority and one for localhost) are made for the run. All servers run all the time, with one thread for clients.

Printed: for each load the CPU of the server per operation, and operations a second, of both, driven in turns, with their ratio
(`millrace bench --vs`); and for a handshake, whole and resumed, the CPU of the server, which is what a core can do of them in a second. The handshakes'
client is Python's ssl; each is TLS 1.3.
"""

import argparse
import glob
import json
import os
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time

PATIENCE_S = 20
LOADS = [
    ("64 B, one under way", []),
    ("64 B, 32 under way", ["-P", "32"]),
    ("16 KiB, one under way", ["--value", "16384", "--keys", "2k"]),
]


def certificates(folder):
    """An authority's file, and a certificate's and key's for localhost."""
    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, stderr=subprocess.DEVNULL)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=authority")
    openssl("req", "-new", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    with open(os.path.join(folder, "ext"), "w") as text:
        text.write("subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "ext", "-out", "server.pem")
    return [os.path.join(folder, name) for name in ("ca.pem", "server.pem", "server.key")]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    def __init__(self, name, command, has_tls):
        self.name, self.has_tls, self.port = name, has_tls, free_port()
        words = [word.format(port=self.port) for word in command]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.monotonic() > until or self.process.poll() is not None:
                    sys.exit(f"{name} does not start: {' '.join(words)}")
                time.sleep(0.05)

    def target(self):
        return f"{'tls:' if self.has_tls else ''}127.0.0.1:{self.port}"

    def cpu_ns(self):
        total = 0
        for path in glob.glob(f"/proc/{self.process.pid}/task/*/schedstat"):
            with open(path) as text:
                total += int(text.read().split()[0])
        return total


def versus(args, ca, one, other, load):
    """Of both: CPU of the server per operation in µs, and operations a second."""
    command = [args.millrace, "bench", one.target(), "--vs", other.target(), "--tls-ca", ca, "--pairs", str(args.pairs),
               "--slice", args.slice, "--server-pid", str(one.process.pid), "--vs-server-pid", str(other.process.pid), "--json", *load]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    outcome = json.loads(done.stdout)["outcome"]["versus"]
    sides = [(outcome[side]["server_cpu"]["total_us"], outcome[side]["ops_per_sec"]) for side in ("a", "b")]
    return sides


def handshakes(server, ca, count):
    """CPU of the server in µs for a whole handshake and for one that resumes, each with one command (which brings the ticket)."""
    context = ssl.create_default_context(cafile=ca)

    def one(session):
        raw = socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)
        with context.wrap_socket(raw, server_hostname="localhost", session=session) as stream:
            stream.sendall(b"mn\r\n")
            stream.recv(64)
            return stream.session, stream.session_reused

    def measured(resumes):
        session, _ = one(None)
        before, reused = server.cpu_ns(), 0
        for _ in range(count):
            session, was = one(session if resumes else None)
            reused += was
        assert reused == (count if resumes else 0), f"{server.name}: {reused} of {count} handshakes resumed"
        return (server.cpu_ns() - before) / count / 1000

    return measured(False), measured(True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("millrace")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--slice", default="300ms")
    parser.add_argument("--handshakes", type=int, default=400)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ca, cert, key = certificates(folder)
        plain = ["-l", "127.0.0.1", "-p", "{port}", "-m", "256"]
        servers = {
            "millrace": Server("millrace", [args.millrace, "up", *plain], False),
            "millrace+tls": Server("millrace+tls", [args.millrace, "up", *plain, "--tls-cert", cert, "--tls-key", key], True),
        }
        help_of_memcached = subprocess.run(["memcached", "-h"], stdout=subprocess.PIPE, text=True).stdout
        if "--enable-ssl" in help_of_memcached:
            theirs = ["memcached", "-u", "root", "-t", "1", "-U", "0", *plain]
            servers["memcached"] = Server("memcached", theirs, False)
            servers["memcached+tls"] = Server(
                "memcached+tls",
                [*theirs, "-Z", "-o", f"ssl_chain_cert={cert},ssl_key={key},ssl_min_version=3,ssl_session_cache"], True)
        else:
            print("the memcached here has no TLS: its half is left out")
        try:
            pairs = [("millrace+tls", "millrace"), ("memcached+tls", "memcached"), ("millrace+tls", "memcached+tls")]
            pairs = [pair for pair in pairs if all(name in servers for name in pair)]
            print(f"{'load':24}{'A':16}{'B':16}{'A µs/op':>9}{'B µs/op':>9}{'A / B':>7}{'A ops/s':>10}{'B ops/s':>10}{'A / B':>7}")
            for what, load in LOADS:
                for one, other in pairs:
                    (cpu, ops), (cpu2, ops2) = versus(args, ca, servers[one], servers[other], load)
                    print(f"{what:24}{one:16}{other:16}{cpu:9.2f}{cpu2:9.2f}{cpu / cpu2:7.2f}{ops:10.0f}{ops2:10.0f}{ops / ops2:7.2f}", flush=True)
            print(f"\n{'handshake':24}{'whole: µs':>10}{'a second':>10}{'resumed: µs':>13}{'a second':>10}   of one core, one command with each")
            for server in servers.values():
                if server.has_tls:
                    rounds = [handshakes(server, ca, args.handshakes // 4) for _ in range(4)]
                    whole, resumed = (statistics.median(one) for one in zip(*rounds))
                    print(f"{server.name:24}{whole:10.0f}{1e6 / whole:10.0f}{resumed:13.0f}{1e6 / resumed:10.0f}", flush=True)
        finally:
            for server in servers.values():
                server.process.terminate()
                server.process.wait()


if __name__ == "__main__":
    main()
