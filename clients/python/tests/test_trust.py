"""Replicas and admin ports with TLS: who is believed, and who is asked for a certificate."""

import os
import shutil
import ssl
import subprocess
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from unittest import mock

from chained import Replica, done
from test_store import LONG, serving

from millrace import Cluster, NotFound
from millrace.controllers import named, urls

OPENSSL = shutil.which("openssl")


def context(folder: Path, authority: str = "ca", own: str | None = None) -> ssl.SSLContext:
    """Believes this authority alone, and shows that certificate."""
    made = ssl.create_default_context(cafile=str(folder / f"{authority}.pem"))
    if own is not None:
        made.load_cert_chain(folder / f"{own}.pem", folder / f"{own}.key")
    return made


@unittest.skipIf(OPENSSL is None, "there is no openssl to make certificates with")
class Trust(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.made = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.made.name)
        for name in ("ca", "stranger"):
            cls.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2",
                        "-subj", f"/CN={name}")  # fmt: skip
        for name in ("server", "client"):
            cls.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
            (cls.folder / "ext").write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
            cls.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "ext", "-out", f"{name}.pem")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.made.cleanup()

    @classmethod
    def openssl(cls, *words: str) -> None:
        subprocess.run([str(OPENSSL), *words], cwd=cls.folder, check=True, capture_output=True)

    def server(self, asks: bool = False) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(self.folder / "server.pem", self.folder / "server.key")
        if asks:
            made.load_verify_locations(self.folder / "ca.pem")
            made.verify_mode = ssl.CERT_REQUIRED
        return made

    def replica(self, asks: bool = False) -> Replica:
        replica = Replica(1, serving(lambda *_: done(9, (1,))), tls=self.server(asks))
        self.addCleanup(replica.end)
        return replica

    def environment(self, **said: str) -> None:
        patch = mock.patch.dict(os.environ, said)
        patch.start()
        self.addCleanup(patch.stop)

    def test_who_is_believed_is_asked_over_tls(self) -> None:
        one = self.replica()
        self.assertTrue(one.address.startswith("tls:"))
        with Cluster.from_replicas(one.address, tls=context(self.folder), deadline=LONG) as cluster:
            self.assertEqual(cluster.increment("n"), 1)
        for tls, words in [(context(self.folder, "stranger"), "certificate verify failed"), (None, "MILLRACE_TLS_CA")]:
            with self.assertRaises(NotFound) as caught:
                Cluster.from_replicas(one.address, tls=tls)
            self.assertIn(words, str(caught.exception))
        self.assertEqual(len(one.asked("Execute")), 1)

    def test_who_asks_for_a_certificate_is_shown_one(self) -> None:
        one = self.replica(asks=True)
        with self.assertRaises(NotFound):
            Cluster.from_replicas(one.address, tls=context(self.folder))
        with Cluster.from_replicas(one.address, tls=context(self.folder, own="client"), deadline=LONG) as cluster:
            self.assertEqual(cluster.increment("n"), 1)

    def test_the_environment_says_who_is_believed(self) -> None:
        one = self.replica(asks=True)
        paths = {name: str(self.folder / name) for name in ("ca.pem", "client.pem", "client.key")}
        self.environment(MILLRACE_TLS_CA=paths["ca.pem"], MILLRACE_TLS_CERT=paths["client.pem"], MILLRACE_TLS_KEY=paths["client.key"])
        with Cluster.from_replicas(one.address, deadline=LONG) as cluster:
            self.assertEqual(cluster.increment("n"), 1)
        self.assertEqual((urls(["h:1", "http://h:2"]), named("http://h:1,h:2")), (["https://h:1", "http://h:2"], ["http://h:1", "http://h:2"]))
        self.environment(MILLRACE_TLS_CA=str(self.folder / "none.pem"))
        with self.assertRaises(NotFound) as caught:
            Cluster.from_replicas(one.address)
        self.assertIn("none.pem", str(caught.exception))

    def test_a_controller_is_asked_by_https(self) -> None:
        one = self.replica()
        directory = f'{{"chain": 7, "replicas": [{{"replica": 1, "address": "{one.address}"}}]}}'

        class Page(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200 if self.path == "/chain" else 404)
                self.end_headers()
                self.wfile.write(directory.encode())

            def log_message(self, *_: object) -> None:
                pass

        port = HTTPServer(("127.0.0.1", 0), Page)
        port.socket = self.server().wrap_socket(port.socket, server_side=True)
        threading.Thread(target=port.serve_forever, daemon=True).start()
        self.addCleanup(port.server_close)
        self.addCleanup(port.shutdown)
        place = f"127.0.0.1:{port.server_port}"
        for named_so in (place, f"https://{place}"):
            with Cluster.from_controller(named_so, tls=context(self.folder), deadline=LONG, connect_timeout=LONG) as cluster:
                self.assertEqual(cluster.increment("n"), 1)
        self.assertRaises(NotFound, Cluster.from_controller, f"https://{place}")


if __name__ == "__main__":
    unittest.main()
