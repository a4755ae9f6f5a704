"""Homes that move: what boxes say of them, and a client that follows; controllers that say it to who begins later."""

import http.server
import os
import socket
import tempfile
import threading
import unittest
from pathlib import Path
from unittest import mock

from nodes import Node, rack, reply

from millrace import BadTopology, Client, Cluster, NotFound
from millrace.controllers import KEY, named, urls
from millrace.moved import Moved, Place, emit, learn, told
from millrace.topology import Topology
from millrace.wire import REPLY, Kind, Op, Packet, Status


class Said(unittest.TestCase):
    def test_what_is_written_is_read(self) -> None:
        for moved in ({}, {4: Place("10.0.0.1", 7, 9)}, {1: Place("fd00::1", 65535, 1), 4: Place("10.0.0.1", 1, (1 << 32) - 1)}):
            packet = Packet(Op.NOOP | REPLY, kind=Kind.HOMES, value=emit(moved) + b"rest")
            self.assertEqual(told(packet, [1, 4]), moved)
        self.assertEqual(told(Packet(Op.NOOP | REPLY, value=b"bytes"), [1]), {}, "another kind says nothing of homes")

    def test_what_makes_no_sense_is_refused(self) -> None:
        good = emit({1: Place("10.0.0.1", 7, 5), 2: Place("10.0.0.1", 8, 6)})
        with_bytes = lambda at, put: good[:at] + put + good[at + len(put) :]  # noqa: E731
        for value, homes in [
            (good, [1]),
            (good[:-1], [1, 2]),
            (good[:7], [1, 2]),
            (with_bytes(2, b"\1"), [1, 2]),
            (with_bytes(8, b"\2"), [1, 2]),
            (with_bytes(10, bytes(2)), [1, 2]),
            (with_bytes(16, bytes(16)), [1, 2]),
        ]:
            with self.subTest(value=value.hex()):
                self.assertIsNone(told(Packet(Op.NOOP | REPLY, kind=Kind.HOMES, value=value), homes))

    def test_the_higher_epoch_counts_in_whatever_order(self) -> None:
        old, new = {1: Place("10.0.0.1", 1, 5)}, {1: Place("10.0.0.1", 2, 9)}
        for order in ((old, new), (new, old)):
            known: Moved = {}
            for heard in order:
                learn(known, heard)
            self.assertEqual(known, new)
            self.assertFalse(learn(known, old) | learn(known, new))


class Following(unittest.TestCase):
    def test_a_client_follows_a_home_that_moves_while_it_asks(self) -> None:
        there = Node(lambda request: [reply(request, round=9)] if request.opcode == Op.SESSION else [reply(request, version=7)])
        where = emit({4: Place(*there.address, 3)})
        box = Node(lambda request: [reply(request, kind=Kind.HOMES, value=where)] if request.opcode == Op.NOOP else [])
        gone = Node(lambda _: [])
        client = Client(rack(box, gone, bypass=0.0))
        for end in (client.close, box.end, gone.end, there.end):
            self.addCleanup(end)
        self.assertEqual(client.set("colour", b"blue"), 7)
        self.assertEqual({request.opcode for request in there.heard}, {Op.SESSION, Op.SET})
        asked = next(request for request in box.heard if request.opcode == Op.NOOP)
        self.assertEqual((asked.box, asked.home), (1, 0))
        # What is known is not asked again, and nobody who is not the home is believed any more.
        before = len(box.heard)
        self.assertEqual(client.set("colour", b"red"), 7)
        self.assertEqual(len(box.heard), before)

    def test_only_the_answer_to_what_was_asked_is_believed(self) -> None:
        elsewhere = Node(lambda request: [reply(request)])
        where = emit({4: Place(*elsewhere.address, 3)})
        # The home itself says so, unasked, and is no box; its answer to the operation comes behind that.
        liar = lambda request: [reply(request, opcode=Op.NOOP | REPLY, kind=Kind.HOMES, value=where), reply(request, Status.MISS)]  # noqa: E731
        box, home = Node(lambda _: []), Node(liar)
        client = Client(rack(box, home, bypass=60.0))
        for end in (client.close, box.end, home.end, elsewhere.end):
            self.addCleanup(end)
        for _ in range(4):
            self.assertIsNone(client.get("colour"))
        self.assertEqual(elsewhere.heard, [])


class Controllers(unittest.TestCase):
    def controller(self, path: str, text: str) -> str:
        """Answers this path with this text; its place."""

        class Pages(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200 if self.path == path else 404)
                self.end_headers()
                self.wfile.write(text.encode() if self.path == path else b"")

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"127.0.0.1:{server.server_port}"

    def nobody(self) -> str:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            return f"127.0.0.1:{listener.getsockname()[1]}"

    def test_places_are_urls_and_files_are_paths(self) -> None:
        for file in ("rack.toml", "/a/b.toml", "./http:/x", Path("http://h:1")):
            self.assertIsNone(named(file))
        self.assertEqual(named("http://h:1/,h:2,http://[::1]:3"), ["http://h:1", "http://h:2", "http://[::1]:3"])
        for text, words in [("https://h", "HOST:PORT"), ("etcd://h:1", "not in etcd"), ("http://h", "HOST:PORT"), ("http://tcp:h:1", "HOST:PORT")]:
            with self.subTest(text), self.assertRaisesRegex(BadTopology, words):
                named(text)
        with self.assertRaisesRegex(BadTopology, "name between 1 and 16"):
            urls(["h:1"] * 17)

    def test_a_client_that_begins_later_finds_the_home_by_its_controllers(self) -> None:
        home = Node(lambda request: [reply(request, round=9)] if request.opcode == Op.SESSION else [reply(request, version=7)])
        self.addCleanup(home.end)
        text = '[[box]]\nid = 1\naddress = "127.0.0.1:1"\n[[home]]\nid = 4\nbox = 1\naddress = "{0}"\n{1}\n[[controller]]\naddress = "127.0.0.1:3"\n{2}'
        there = "%s:%s" % home.address
        place = self.controller("/topology", text.format(there, "moved = 9", ""))
        with Cluster.from_controller(self.nobody(), place) as cluster:
            self.assertEqual(cluster.set("colour", b"blue"), 7)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rack.toml"
            file.write_text(text.format("127.0.0.1:2", "", f'admin = "{place}"'))
            self.assertEqual(Topology.find(file).homes, {4: home.address})
            self.assertEqual(Topology.read(file).homes, {4: ("127.0.0.1", 2)})
            # Nobody has to answer; and what another rack's controller says is not believed.
            other = self.controller("/topology", text.format(there, "moved = 9", "").replace(":1\"", ":9\""))
            for admin in (self.nobody(), other, self.controller("/topology", "[[")):
                file.write_text(text.format("127.0.0.1:2", "", f'admin = "{admin}"'))
                self.assertEqual(Topology.find(file).homes, {4: ("127.0.0.1", 2)})
        with self.assertRaisesRegex(NotFound, "404 for /topology"):
            Topology.read(f"http://{self.controller('/chain', '{}')}")
        with mock.patch.dict(os.environ, {KEY: "/here/client.key"}):
            self.assertEqual(Topology.read(f"http://{place}").key_file, Path("/here/client.key"))


if __name__ == "__main__":
    unittest.main()
