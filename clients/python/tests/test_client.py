"""A client among nodes that lose, double, damage, forget and fall silent."""

import itertools
import threading
import unittest
from collections.abc import Callable
from dataclasses import replace

from nodes import Answer, Node, rack, reply

from millrace import Client, NotDone, Refused, Status, Unknown
from millrace.wire import REPLY, Flags, Op, Packet


def silent(_: Packet) -> list:
    return []


def granting(then: Answer, session: int = 9) -> Answer:
    """Gives a session to whoever asks; all else is as `then` says."""
    return lambda request: [reply(request, round=session)] if request.opcode == Op.SESSION else then(request)


def counted(answers: Callable[[Packet, int], list]) -> Answer:
    """Answers that depend on how many requests, other than for sessions, came before."""
    came: list[Packet] = []

    def answer(request: Packet) -> list:
        if request.opcode == Op.SESSION:
            return [reply(request, round=9)]
        came.append(request)
        return answers(request, len(came) - 1)

    return answer


class Operations(unittest.TestCase):
    def nodes(self, box: Answer, home: Answer, **tuning: object) -> tuple[Client, Node, Node]:
        nodes = Node(box), Node(home)
        client = Client(rack(*nodes, **tuning))
        for end in (client.close, nodes[0].end, nodes[1].end):
            self.addCleanup(end)
        return client, *nodes

    def test_a_read_that_is_lost_is_asked_again_past_the_box(self) -> None:
        client, box, home = self.nodes(silent, lambda request: [reply(request, value=b"blue", version=5)])
        item = client.get("colour")
        self.assertEqual((item.value, item.version, item.from_box), (b"blue", 5, False))
        lost, asked = box.heard[0], home.heard[0]
        self.assertEqual((lost.flags, lost.attempt, lost.home), (0, 0, 4))
        self.assertEqual((asked.flags, asked.attempt), (Flags.NO_CACHE, 1))
        self.assertEqual((asked.operation, asked.client), (lost.operation, lost.client))

    def test_a_silent_box_is_passed_by(self) -> None:
        client, box, home = self.nodes(silent, lambda request: [reply(request, Status.MISS)], bypass=60.0)
        for _ in range(5):
            self.assertIsNone(client.get("colour"))
        self.assertEqual((len(box.heard), len({request.operation for request in home.heard})), (2, 5))

    def test_a_box_answers(self) -> None:
        client, _, home = self.nodes(lambda request: [reply(request, value=b"blue", flags=Flags.FROM_BOX)], silent)
        self.assertTrue(client.get("colour").from_box)
        self.assertEqual((home.heard, client.stats), ([], {"asked": 1, "answered": 1, "direct": 0}))

    def test_a_write_keeps_its_number_until_it_is_answered(self) -> None:
        def home(request: Packet, before: int) -> list:
            return [reply(request, Status.BUSY)] if before == 0 else [reply(request, version=3)] * (before > 1)

        client, _, home = self.nodes(silent, counted(home))
        self.assertEqual(client.set("colour", b"blue", life=2.5, flags=8), 3)
        writes = home.heard[1:]
        self.assertEqual([(write.round, write.operation, write.attempt) for write in writes[:3]], [(9, 1, 0), (9, 1, 1), (9, 1, 2)])
        self.assertEqual((writes[0].value, writes[0].ttl, writes[0].item_flags), (b"blue", 2_500_000_000, 8))
        self.assertEqual(client.set("colour", b"red"), 3)
        self.assertEqual(home.heard[-1].operation, 2)

    def test_a_home_that_forgot_leaves_it_unknown_and_gives_another_session(self) -> None:
        sessions = itertools.chain([9, 9, 9], itertools.repeat(10))

        def home(request: Packet) -> list:
            if request.opcode == Op.SESSION:
                return [reply(request, round=next(sessions))]
            return [reply(request, Status.FORGOTTEN if request.round == 9 else Status.OK, operand=7)]

        client, _, home = self.nodes(silent, home)
        self.assertRaises(Unknown, client.increment, "n")
        # The home says its old session again before it says a new one.
        self.assertEqual(client.increment("n"), 7)
        self.assertEqual((home.heard[-1].round, home.heard[-1].operation), (10, 1))

    def test_nobody_answers(self) -> None:
        client, _, home = self.nodes(silent, granting(lambda request: [reply(request)]))
        other, _, _ = self.nodes(silent, silent, patience=0.05)
        client.set("k", b"v")
        home.answer, client._tuning = silent, replace(client._tuning, patience=0.05)
        for error, op in [
            (NotDone, lambda: client.get("k")),
            (NotDone, lambda: client.add("k", b"v")),
            (Unknown, lambda: client.set("k", b"v")),
            (Unknown, lambda: client.flush()),
            (NotDone, lambda: other.set("k", b"v")),
        ]:
            self.assertRaises(error, op)

    def test_only_the_reply_is_taken(self) -> None:
        def home(request: Packet) -> list:
            right = reply(request, version=1)
            return [
                *(replace(right, version=2, **{name: getattr(right, name) ^ 1}) for name in ("client", "operation", "home", "round")),
                replace(right, version=2, key=b"other"),
                replace(right, version=2, opcode=Op.ADD | REPLY),
                request,
                right.emit()[:-1],
                bytes(300),
                right,
                right,
            ]  # fmt: skip

        client, _, home = self.nodes(silent, granting(home))
        self.assertEqual(client.set("colour", b"blue"), 1)
        stranger = Node(silent)
        self.addCleanup(stranger.end)
        write = home.heard[-1]
        home.answer = lambda request: self.forge(stranger, client, request) if request.opcode == Op.SET else []
        self.assertEqual(client.set("colour", b"red"), 1)
        self.assertEqual(home.heard[-1].operation, write.operation + 1)

    @staticmethod
    def forge(stranger: Node, client: Client, request: Packet) -> list:
        """A stranger replies before the home does."""
        port = client._link._socket.getsockname()
        stranger._socket.sendto(reply(request, version=2).emit(), port)
        return [reply(request, version=1)]

    def test_tries_that_change_nothing_are_not_written(self) -> None:
        def box(request: Packet) -> list:
            if request.opcode == Op.COND_PUT:
                return [reply(request, Status.NOT_STORED, flags=Flags.TRY | Flags.FROM_BOX, operand=50)]
            return [reply(request, value=b"50", version=3, flags=Flags.FROM_BOX)]

        client, box, home = self.nodes(box, granting(lambda request: [reply(request, operand=51, version=4)]))
        self.assertFalse(client.cond_put("n", 7))
        self.assertEqual(client.max("n", 50), 50)
        self.assertIsNone(client.add("n", b"1"))
        self.assertTrue(client.cas("n", 2, b"1").found)
        self.assertEqual(home.heard, [])
        self.assertTrue(all(request.flags == Flags.TRY and request.round == 0 for request in box.heard))
        self.assertEqual(client.max("n", 51), 51)
        self.assertEqual((home.heard[-1].flags, home.heard[-1].round, home.heard[-1].operation), (0, 9, 1))

    def test_statuses_without_a_chance_are_errors(self) -> None:
        client, _, _ = self.nodes(silent, granting(lambda request: [reply(request, Status.NOT_NUMBER)]))
        with self.assertRaisesRegex(Refused, "NOT_NUMBER: what is there is no number") as raised:
            client.increment("k")
        self.assertEqual(raised.exception.status, Status.NOT_NUMBER)

    def test_threads_may_share_a_client(self) -> None:
        lock = threading.Lock()
        sum_of = [0]

        def home(request: Packet) -> list:
            with lock:
                sum_of[0] += request.operand * (request.attempt == 0)
                return [reply(request, operand=sum_of[0])]

        client, _, home = self.nodes(silent, granting(home), retransmit=30.0, retransmit_max=30.0)
        threads = [threading.Thread(target=lambda: [client.increment("n", 2) for _ in range(50)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sum_of, [400])
        self.assertEqual([request.operation for request in home.heard[1:]], list(range(1, 201)))

    def test_what_cannot_be_asked_is_refused_before_it_is_sent(self) -> None:
        client, box, home = self.nodes(silent, silent)
        for bad in (lambda: client.get(""), lambda: client.get(b"k" * 251), lambda: client.set("k", bytes(70_000)),
                    lambda: client.increment("k", -1), lambda: client.cond_put("k", 1 << 64)):  # fmt: skip
            self.assertRaises(ValueError, bad)
        client.close()
        self.assertRaisesRegex(ValueError, "was closed", client.get, "k")
        self.assertEqual((box.heard, home.heard), ([], []))


if __name__ == "__main__":
    unittest.main()
