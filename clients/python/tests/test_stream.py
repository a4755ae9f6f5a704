"""Values that are too long for a packet, among homes that are busy, close, refuse and talk nonsense."""

import socket
import threading
import unittest
from collections.abc import Callable
from dataclasses import replace

from nodes import Node, rack, reply

from millrace import BadTopology, Client, NotDone, Refused, Status, Topology, Unknown
from millrace.stream import command_of, exptime
from millrace.wire import MAX_VALUE, NEVER, Op, Packet

LONG = bytes(100_000)


class Home:
    """A memcached listener that answers commands as a test says; without an answer it closes."""

    def __init__(self, answer: Callable[[bytes, bytes], bytes]) -> None:
        self.answer = answer
        self.heard: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        return self._listener.getsockname()

    def end(self) -> None:
        if self._listener.fileno() < 0:
            return
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as reader:
                while line := reader.readline():
                    words = line.split()
                    value = reader.read(int(words[2]) + 2) if words[0] == b"ms" else b""
                    self.heard.append(line.rstrip())
                    said = self.answer(line, value)
                    if not said:
                        break
                    connection.sendall(said)


class Streams(unittest.TestCase):
    def client(self, answer: Callable[[bytes, bytes], bytes], **tuning: object) -> tuple[Client, Home]:
        """Of a rack whose home is asked by packet in vain: what it has is too long."""
        nodes = [Node(lambda request: [reply(request, Status.TOO_LARGE, operand=len(LONG))]) for _ in range(2)]
        home = Home(answer)
        client = Client(replace(rack(*nodes, **tuning), streams={4: home.address}))
        for end in (nodes[0].end, nodes[1].end, home.end, client.close):
            self.addCleanup(end)
        return client, home

    def test_long_values_are_read_and_written_at_their_home(self) -> None:
        value = b"VA %d f5 c77\r\n%s\r\n" % (len(LONG), LONG)
        client, home = self.client(lambda line, _: b"HD c78\r\n" if line.startswith(b"ms") else value)
        self.assertEqual(client.set("k", LONG, life=60, flags=5), 78)
        item = client.get("k")
        self.assertEqual((item.value, item.flags, item.version, item.from_box), (LONG, 5, 77, False))
        self.assertTrue(client.cas("k", 77, LONG))
        self.assertEqual(home.heard, [b"ms k 100000 c F5 T60", b"mg k v f c", b"ms k 100000 c F0 T0 C77"])

    def test_conditions_are_told_as_by_packet(self) -> None:
        said: list[bytes] = []
        client, _ = self.client(lambda *_: said.pop(0))
        said += [b"NS\r\n", b"NS\r\n", b"EX\r\n", b"NF\r\n", b"EN\r\n"]
        self.assertIsNone(client.add("k", LONG))
        self.assertIsNone(client.replace("k", LONG))
        swaps = [client.cas("k", 7, LONG) for _ in range(2)]
        self.assertEqual([(bool(swap), swap.found) for swap in swaps], [(False, True), (False, False)])
        self.assertIsNone(client.get("k"))

    def test_a_busy_home_is_asked_again_and_what_it_refuses_is_said(self) -> None:
        said = [b"SERVER_ERROR busy\r\n"] * 2 + [b"HD c9\r\n", b"SERVER_ERROR out of memory storing object\r\n"]
        client, home = self.client(lambda *_: said.pop(0))
        self.assertEqual(client.set("k", LONG), 9)
        with self.assertRaises(Refused) as caught:
            client.set("k", LONG)
        self.assertEqual((caught.exception.status, len(home.heard)), (Status.NO_ROOM, 4))

    def test_a_write_that_is_lost_is_not_sent_again_and_a_read_is(self) -> None:
        said = [b"", b"", b"VA 1 f0 c7\r\nx\r\n"]
        client, home = self.client(lambda *_: said.pop(0))
        self.assertRaises(Unknown, client.set, "k", LONG)
        self.assertEqual(client.get("k").value, b"x")
        self.assertEqual(len(home.heard), 3)

    def test_nonsense_is_no_answer(self) -> None:
        for nonsense in (b"VA 99999999 f0\r\n", b"VA 1\r\nxyz", b"HTTP/1.1 400\r\n", b"x" * 5000, b"VA x\r\n"):
            said = [nonsense, b"EN\r\n"]
            client, _ = self.client(lambda *_, said=said: said.pop(0))
            self.assertIsNone(client.get("k"))

    def test_a_home_that_is_not_there_did_nothing(self) -> None:
        client, home = self.client(lambda *_: b"EN\r\n", patience=0.2)
        home.end()
        self.assertRaises(NotDone, client.set, "k", LONG)

    def test_what_is_too_long_for_a_stream_too_is_refused_before(self) -> None:
        client, home = self.client(lambda *_: b"", value_max=200_000)
        self.assertRaises(ValueError, client.set, "k", bytes(200_001))
        self.assertEqual(home.heard, [])

    def test_commands(self) -> None:
        def text(op: Op, key: bytes = b"k", **fields: object) -> bytes | None:
            return command_of(Packet(op, key, b"v", **fields))

        self.assertEqual(text(Op.GET, b"a b"), b"mg YSBi v f c b\r\n")
        self.assertEqual(text(Op.CAS, ttl=NEVER), b"ms k 1 c F0 T0 C18446744073709551615\r\nv\r\n")
        self.assertEqual(text(Op.APPEND, ttl=NEVER), b"ms k 1 c F0 T0 MA\r\nv\r\n")
        self.assertEqual((text(Op.APPEND, operand=9), text(Op.INCR), text(Op.GET, bytes(250))), (None, None, None))
        self.assertEqual([exptime(ttl) for ttl in (NEVER, 0, 1, 10**9, 60 * 10**9)], [0, -1, 1, 1, 60])
        self.assertGreater(exptime(10**9 * 60 * 60 * 24 * 31), 10**9)


class Files(unittest.TestCase):
    def test_streams_and_sizes_are_read(self) -> None:
        def parsed(*, stream: bool = True, **registers: object) -> Topology:
            home = {"id": 4, "address": "127.0.0.1:2"} | ({"stream": "127.0.0.1:3"} if stream else {})
            return Topology.parse({"box": [{"id": 1, "address": "127.0.0.1:1"}], "home": [home], "coherence": registers})

        self.assertEqual((parsed().streams, parsed(stream=False).streams), ({4: ("127.0.0.1", 3)}, {}))
        sizes = [parsed(value_max=said).tuning.value_max for said in (1 << 20, "512KiB", "100000", 5)]
        self.assertEqual(sizes, [1 << 20, 512 << 10, 100_000, MAX_VALUE])
        self.assertRaises(BadTopology, parsed, value_max="much")
        homes = [{"id": 4, "address": "127.0.0.1:2", "stream": "127.0.0.1:3"}, {"id": 5, "address": "127.0.0.1:4"}]
        self.assertRaises(BadTopology, Topology.parse, {"box": [{"id": 1, "address": "127.0.0.1:1"}], "home": homes})


if __name__ == "__main__":
    unittest.main()
