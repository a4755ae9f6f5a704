"""Where replicas are found: controllers, etcd, files, and several of them."""

import base64
import http.server
import json
import shutil
import ssl
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

from millrace import BadTopology, NotFound
from millrace.find import Finder, Source, controller, etcd, file, replicas

DIRECTORY = {
    "chain": 7,
    "epoch": 5,
    "replicas": [{"replica": 2, "address": "tcp:h:2", "part": "serving"}, {"replica": 1, "address": "tcp:h:1", "part": "out"}],
}


class Pages(http.server.BaseHTTPRequestHandler):
    """Answers with the pages of its server."""

    def do_GET(self) -> None:
        page = self.server.pages.get(self.path)
        text = json.dumps(page).encode() if isinstance(page, dict | list) else page or b"nothing here"
        self.send_response(404 if page is None else 200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.tokens.append(self.headers.get("authorization"))
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


class Sources(unittest.TestCase):
    def pages(self, pages: dict[str, object], tls: ssl.SSLContext | None = None) -> http.server.HTTPServer:
        server = http.server.HTTPServer(("127.0.0.1", 0), Pages)
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
            server.handle_error = lambda *_: None
        server.pages, server.tokens = pages, []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        for end in (server.server_close, thread.join, server.shutdown):
            self.addCleanup(end)
        server.place = f"127.0.0.1:{server.server_port}"
        return server

    def found(self, *sources: Source, chain: int | None = None) -> list[str]:
        return Finder(list(sources), chain, 60.0).addresses()

    def test_a_controller_says_where_replicas_are(self) -> None:
        pages = {"/chain": DIRECTORY, "/none/chain": DIRECTORY | {"replicas": []}, "/odd/chain": b"<html>", "/long/chain": bytes(70000)}
        place = self.pages(pages).place
        self.assertEqual(self.found(controller(place), chain=7), ["tcp:h:2", "tcp:h:1"])
        wrong = [("", 8, "about chain 7"), ("/none", None, "no replica has said"), ("/odd", None, "no directory"), ("/x", None, "404")]
        for path, chain, words in [*wrong, ("/long", None, "more than")]:
            with self.assertRaisesRegex(NotFound, words):
                self.found(controller(f"http://{place}{path}/"), chain=chain)
        self.assertRaises(ValueError, controller, "tcp:127.0.0.1:7400")

    def test_etcd_says_where_replicas_are(self) -> None:
        directory = base64.b64encode(json.dumps(DIRECTORY | {"chain": 1}).encode()).decode()
        pages = {"/v3/kv/range": {"kvs": [{"value": directory, "mod_revision": "3"}]}, "/v3/auth/authenticate": {"token": "t"}}
        server, gone = self.pages(pages), self.pages({})
        self.assertEqual(len(self.found(etcd(f"http://{server.place}"))), 2)
        both = etcd([f"http://{gone.place}", f"http://{server.place}"], ("ann", "secret"))
        self.assertEqual(len(self.found(both)), 2)
        self.assertEqual(server.tokens, [None, None, "t"])
        with self.assertRaisesRegex(NotFound, "etcd does not answer"):
            self.found(etcd(f"http://{gone.place}"))
        empty = self.pages({"/v3/kv/range": {}})
        with self.assertRaisesRegex(NotFound, "/millrace/chain/9/directory"):
            self.found(etcd(f"http://{empty.place}"), chain=9)
        self.assertRaises(ValueError, etcd, "https://h:1")
        self.assertRaises(ValueError, etcd, [])

    def test_an_etcd_with_a_certificate_is_asked_if_it_is_believed(self) -> None:
        if shutil.which("openssl") is None:
            self.skipTest("openssl is not installed")
        directory = base64.b64encode(json.dumps(DIRECTORY | {"chain": 1}).encode()).decode()
        with tempfile.TemporaryDirectory() as folder:
            files = [f"{folder}/cert.pem", f"{folder}/key.pem"]
            words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=etcd -addext subjectAltName=IP:127.0.0.1"
            subprocess.run(["openssl", *words.split(), "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
            shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            shown.load_cert_chain(*files)
            server = self.pages({"/v3/kv/range": {"kvs": [{"value": directory, "mod_revision": "3"}]}}, shown)
            url = f"https://{server.place}"
            self.assertEqual(len(self.found(etcd(url, tls=ssl.create_default_context(cafile=files[0])))), 2)
            with self.assertRaisesRegex(NotFound, "CERTIFICATE_VERIFY_FAILED"):
                self.found(etcd(url, tls=ssl.create_default_context()))

    def test_a_file_says_where_replicas_are(self) -> None:
        chain = '[[chain]]\nnumber = {}\n[[chain.replica]]\nid = 1\naddress = "tcp:h:{}"\n'
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "cluster.toml"
            slots = 'slots = "{}"\n[[chain.replica]]'
            seven, eight = (chain.format(number, number) for number in (7, 8))
            seven, low = seven.replace("[[chain.replica]]", slots.format("0-99")), seven
            both = seven + eight.replace("[[chain.replica]]", slots.format("100-16383"))
            path.write_text(both)
            self.assertEqual(self.found(file(path), chain=8), ["tcp:h:8"])
            for text, words in [
                (low + eight, 'chain 7 is one of 2, .* as slots = "0-8191"'),
                (both.replace("0-99", "0-100"), "slot 100 is chain 7's, and chain 8's"),
                (both.replace("0-99", "0-98"), "slot 99 is no chain's"),
                (both.replace("0-99", "9-0"), "a range rises"),
                (both.replace("number = 8", "number = 7"), "a chain 7 already"),
                (both, "say which chain: its chains are 7, 8"),
                ("", "its chains are none"),
                ("chain = 3", "must be tables"),
                ("[[chain]]\nnumber = 7", "needs a replica"),
                (chain.format(7, 7).replace("id = 1", "id = 0"), "needs id, from 1"),
                ("[", "makes no sense"),
            ]:
                path.write_text(text)
                with self.assertRaisesRegex(NotFound, words):
                    self.found(file(path))

    def test_what_one_source_lacks_another_has(self) -> None:
        missing = file("no-such-cluster.toml")
        self.assertEqual(self.found(missing, replicas(["a", "b"]), replicas(["b", "c"])), ["a", "b", "c"])
        with self.assertRaisesRegex(NotFound, "no-such-cluster.toml"):
            self.found(missing)
        with self.assertRaisesRegex(NotFound, "no replica is named"):
            self.found()


class Bad(unittest.TestCase):
    def test_an_error_of_a_file_is_one_of_topologies(self) -> None:
        self.assertRaises(BadTopology, file("/dev/null"), Finder())


if __name__ == "__main__":
    unittest.main()
