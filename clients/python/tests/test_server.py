"""A client of a key-value server, and one of RPC. The servers are started by `millrace/tests/languages`, which says where they are: without it only what
needs none is tested."""

import os
import threading
import unittest
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import millrace
from millrace import BadNumber, CallFailed, Channel, Client, Item, NotFound, Refused, Server, Swap, library
from millrace.server import is_address

SERVERS = os.environ.get("MILLRACE_TEST_SERVERS", "").split()
"""Addresses of key-value servers, each of which has no users."""

RPC = os.environ.get("MILLRACE_TEST_RPC", "").split()
"""Addresses of one server of `demo.Echo`: shared memory, then TCP."""

LIBRARY = os.environ.get("MILLRACE_LIB")
PATIENCE = 60.0


class Addresses(unittest.TestCase):
    def test_addresses_are_told_from_topologies(self) -> None:
        for address in ("shm:/run/m.shm", "unix:m.sock", "tcp:h:1", "tls:h:1", "localhost:11211", "[::1]:11211"):
            self.assertTrue(is_address(address), address)
        two = "http://10.0.0.5:9105,http://10.0.0.6:9105"
        for topology in ("rack.toml", "http://10.0.0.5:9105", two, "/etc/a:b/rack.toml", Path("shm:x")):
            self.assertFalse(is_address(topology), topology)

    def test_options_of_a_server_are_not_a_topologys(self) -> None:
        with self.assertRaisesRegex(TypeError, "timeout"):
            Client("rack.toml", timeout=1.0)

    def test_a_library_that_is_not_there_is_said_where_it_was_looked_for(self) -> None:
        library.library.cache_clear()
        self.addCleanup(library.library.cache_clear)
        with mock.patch.dict(os.environ, {"MILLRACE_LIB": "/nowhere/libmillrace.so"}):
            with self.assertRaisesRegex(NotFound, "/nowhere/libmillrace.so.*cargo build.*MILLRACE_LIB"):
                Client("shm:/nowhere/m.shm")


@unittest.skipUnless(LIBRARY, "MILLRACE_LIB names no library")
class Nobody(unittest.TestCase):
    def test_nobody_there_says_what_to_do(self) -> None:
        with self.assertRaisesRegex(NotFound, "--shm"):
            Client("shm:/nowhere/m.shm")
        with self.assertRaisesRegex(NotFound, "/nowhere/r.sock"):
            Channel("shm:/nowhere/r.sock")
        with self.assertRaisesRegex(ValueError, "longer than 0"):
            Client("shm:/nowhere/m.shm", timeout=0)
        with self.assertRaisesRegex(ValueError, "no boxes"):
            Client("shm:/nowhere/m.shm", box=1)


@unittest.skipUnless(SERVERS, "MILLRACE_TEST_SERVERS names no servers")
class Operations(unittest.TestCase):
    def clients(self) -> Iterator[Server]:
        """A client of each server, without items of other tests."""
        for address in SERVERS:
            with self.subTest(address), Client(address, timeout=PATIENCE) as client:
                assert isinstance(client, Server)
                for key in ("k", "n", "other"):
                    client.delete(key)
                yield client

    def test_every_operation(self) -> None:
        for client in self.clients():
            self.assertIsNone(client.get("k"))
            self.assertFalse(client.replace("k", b"no"))
            self.assertFalse(client.append("k", b"no") or client.prepend("k", b"no") or client.delete("k") or client.touch("k", 5))
            self.assertEqual(client.cas("k", 1, b"no"), Swap(None, False))
            self.assertTrue(client.add("k", b"b\0", flags=7))
            self.assertFalse(client.add("k", b"x"))
            self.assertTrue(client.append("k", b"c") and client.prepend(b"k", b"a"))
            item = client.get("k")
            assert item is not None
            self.assertEqual(item, Item(b"ab\0c", 7, item.version, False))
            self.assertEqual(client.cas("k", item.version + 1, b"no"), Swap(None, True))
            self.assertTrue(client.cas("k", item.version, b"new"))
            self.assertTrue(client.replace("k", b""))
            touched = client.get_and_touch("k", 1000)
            self.assertEqual(touched and touched.value, b"")
            self.assertTrue(client.touch("k", 40 * 24 * 3600))
            self.assertIsNotNone(client.get("k"))
            client.set("k", b"x", life=0)
            self.assertIsNone(client.get("k"))

    def test_numbers(self) -> None:
        for client in self.clients():
            self.assertIsNone(client.increment("n"))
            self.assertEqual(client.increment("n", initial=40), 40)
            self.assertEqual((client.increment("n", 2), client.decrement("n"), client.decrement("n", 100)), (42, 41, 0))
            client.set("n", b"word")
            with self.assertRaisesRegex(BadNumber, "no number"):
                client.increment("n")
            with self.assertRaises(ValueError):
                client.increment("n", -1)

    def test_many(self) -> None:
        for client in self.clients():
            names = [f"m{i}" for i in range(600)]
            for name in names[::2]:
                client.set(name, name.encode() * 3, flags=3)
            found = {key: item.value for key, item in client.get_many([*names, "other"]).items()}
            self.assertEqual(found, {name.encode(): name.encode() * 3 for name in names[::2]})
            self.assertEqual(client.get_many([]), {})

    def test_what_cannot_be_asked(self) -> None:
        for client in self.clients():
            for key in ("", "two words", "k" * 251, b"a\r\nflush_all"):
                with self.assertRaises(ValueError):
                    client.get(key)
            with self.assertRaisesRegex(ValueError, "flags"):
                client.set("k", b"", flags=-1)
            with self.assertRaises(Refused) as refused:
                client.set("k", bytes(64 << 20))
            self.assertEqual(refused.exception.status, millrace.Status.TOO_LARGE)
            with self.assertRaisesRegex(Refused, "in-network cache"):
                client.min("k", 1)
            client.set("k", bytes(900_000))
            item = client.get("k")
            self.assertEqual(item and len(item.value), 900_000)

    def test_threads_share_a_client(self) -> None:
        def work(client: Server) -> None:
            for _ in range(200):
                client.increment("n")

        for client in self.clients():
            client.set("n", b"0")
            threads = [threading.Thread(target=work, args=(client,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            item = client.get("n")
            self.assertEqual(item and item.value, b"800")

    def test_a_closed_client_says_so(self) -> None:
        for client in self.clients():
            client.close()
            with self.assertRaisesRegex(ValueError, "closed"):
                client.get("k")
            # It is closed again by the test, to no effect.


@unittest.skipUnless(RPC, "MILLRACE_TEST_RPC names no server")
class Calls(unittest.TestCase):
    HELLO = b"\x0a\x05hello"
    """A SayRequest, and the SayReply to it."""

    def test_bytes(self) -> None:
        for address in RPC:
            with self.subTest(address), Channel(address, timeout=PATIENCE) as channel:
                self.assertEqual(channel.call("/demo.Echo/Say", self.HELLO), self.HELLO)
                say = channel.unary_unary("/demo.Echo/Say")
                self.assertEqual(say(self.HELLO, timeout=PATIENCE, metadata=[("who", "ann"), ("raw-bin", b"\0")]), self.HELLO)
                with self.assertRaises(CallFailed) as failed:
                    channel.call("/demo.Echo/Nothing", b"")
                self.assertEqual(failed.exception.details().count("/demo.Echo/Nothing"), 1)
                with self.assertRaisesRegex(ValueError, "metadata"):
                    channel.call("/demo.Echo/Say", self.HELLO, metadata=[("Who?", "ann")])
                with self.assertRaisesRegex(CallFailed, "streams"):
                    channel.unary_stream("/demo.Echo/Count")(b"")
            with self.assertRaisesRegex(ValueError, "closed"):
                channel.call("/demo.Echo/Say", self.HELLO)


@unittest.skipUnless(RPC and "MILLRACE_TEST_STUBS" in os.environ, "MILLRACE_TEST_STUBS names no folder with stubs of demo.proto")
class Stubs(unittest.TestCase):
    """What protoc's plugin for gRPC made of demo.proto, over our channels and over gRPC's own."""

    def test_generated_stubs(self) -> None:
        import demo_pb2
        import demo_pb2_grpc
        import grpc

        ours = [Channel(address, timeout=PATIENCE) for address in RPC]
        # A TCP port of a server speaks gRPC as well.
        theirs = [grpc.insecure_channel(address.removeprefix("tcp:")) for address in RPC if address.startswith("tcp:")]
        self.assertTrue(ours and theirs)
        for channel in (*ours, *theirs):
            with self.subTest(type(channel)), channel:
                stub = demo_pb2_grpc.EchoStub(channel)
                self.assertEqual(stub.Say(demo_pb2.SayRequest(text="hello"), timeout=PATIENCE).text, "hello")
                with self.assertRaises(grpc.RpcError) as failed:
                    stub.Fail(demo_pb2.FailRequest(code=grpc.StatusCode.NOT_FOUND.value[0], message="no tea"), timeout=PATIENCE)
                self.assertEqual((failed.exception.code(), failed.exception.details()), (grpc.StatusCode.NOT_FOUND, "no tea"))


if __name__ == "__main__":
    unittest.main()
