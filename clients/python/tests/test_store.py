"""A store among replicas that die, move, refuse, forget and fall silent."""

import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path

from chained import SESSION, Answer, Denies, Ends, Hangs, Replica, done, numbers, opened, outcome, refused

from millrace import BadNumber, Cluster, MillraceError, NotDone, NotFound, Rejected, State, Store, Unknown, Why
from millrace.find import Finder, file, replicas
from millrace.protobuf import Writer
from millrace.txn import Refused

LONG = 60.0
"""Seconds: what a test expects comes long before."""


def serving(execute: Callable[[bytes, int], bytes]) -> Answer:
    """Opens sessions; transactions are answered by what is asked and how many came before."""
    came: list[bytes] = []

    def answer(method: str, body: bytes) -> bytes:
        if method == "Open":
            return opened()
        if method == "Execute":
            came.append(body)
            return execute(body, len(came) - 1)
        return b""

    return answer


def aborted(why: Why, place: int = 0) -> bytes:
    abort, out, reply = Writer(), Writer(), Writer()
    abort.number(1, why)
    abort.number(2, place)
    out.number(1, 9)
    out.data(2, abort.done(), always=True)
    reply.data(1, out.done())
    return reply.done()


class Chain(unittest.TestCase):
    def replica(self, number: int, answer: Answer, chain: int = 7) -> Replica:
        replica = Replica(number, answer, chain)
        self.addCleanup(replica.end)
        return replica

    def chain(self, *replicas: Replica) -> None:
        """They are a chain, in this order."""
        for replica in replicas:
            replica.members = [(other.replica, other.address) for other in replicas]

    def store(self, *addresses: str, deadline: float = LONG, timeout: float = LONG) -> Store:
        store = Store(Finder([replicas(addresses)], None, timeout), deadline)
        self.addCleanup(store.close)
        return store

    def test_what_writes_goes_to_the_head_and_what_reads_to_the_tail(self) -> None:
        head, middle, tail = (self.replica(n, serving(lambda *_: done(9, (5,)))) for n in (1, 2, 3))
        self.chain(head, middle, tail)
        store = self.store(middle.address)
        self.assertEqual(store.increment("n", 5), 5)
        self.assertEqual(store.set("k", b"v"), 9)
        self.assertTrue(store.transaction().read("k").commit())
        self.assertEqual([len(replica.asked("Execute")) for replica in (head, middle, tail)], [2, 0, 1])
        self.assertEqual([numbers(body) for body in head.asked("Execute")], [(SESSION, 1), (SESSION, 2)])
        self.assertEqual(numbers(tail.asked("Execute")[0]), (b"", 0))
        self.assertEqual(head.pings, 1)
        store.close()
        self.assertEqual([numbers(body)[0] for body in head.asked("Close")], [SESSION])

    def claimed_by(self, home: Replica, execute: Callable[[bytes, int], bytes]) -> Answer:
        """Its claim is read at a key of its own; else as `execute` says."""

        def answer(body: bytes, before: int) -> bytes:
            if numbers(body) == (b"", 0):
                found, out, reply = Writer(), Writer(), Writer()
                found.number(1, 3)
                found.data(2, b"\x01" + bytes([7] * 8) + home.address.encode())
                out.number(1, 9)
                out.data(3, found.done(), always=True)
                reply.data(1, out.done())
                return reply.done()
            return execute(body, before)

        return serving(answer)

    def test_a_write_goes_by_the_home_that_has_claimed_the_chain(self) -> None:
        home = self.replica(9, serving(lambda *_: done(9, (6,))))
        head = self.replica(1, self.claimed_by(home, lambda *_: aborted(Why.CLAIMED)))
        self.chain(head)
        store = self.store(head.address)
        self.assertEqual(store.increment("n", 5), 6)
        self.assertEqual(store.increment("n", 5), 6)
        # The chain remembers that it refused the first number; the second write goes there at once.
        self.assertEqual([numbers(body) for body in home.asked("Execute")], [(SESSION, 2), (SESSION, 3)])
        self.assertEqual([numbers(body) for body in head.asked("Execute")], [(SESSION, 1), (b"", 0)])

    def test_where_the_home_is_gone_the_chain_is_asked_under_the_same_number(self) -> None:
        def ends(*_: object) -> bytes:
            raise Ends

        home = self.replica(9, serving(ends))
        head = self.replica(1, self.claimed_by(home, lambda body, _: aborted(Why.CLAIMED) if numbers(body)[1] == 1 else done(9, (7,))))
        self.chain(head)
        self.assertEqual(self.store(head.address).increment("n", 5), 7)
        self.assertEqual([numbers(body) for body in home.asked("Execute")], [(SESSION, 2)])
        self.assertEqual([numbers(body) for body in head.asked("Execute")], [(SESSION, 1), (b"", 0), (SESSION, 2)])

    def test_that_a_home_which_is_gone_has_the_chain_is_an_outcome_in_the_end(self) -> None:
        home = self.replica(9, serving(lambda *_: done(9)))
        home.end()
        head = self.replica(1, self.claimed_by(home, lambda *_: aborted(Why.CLAIMED)))
        self.chain(head)
        outcome = self.store(head.address).transaction().put("k", b"v").commit()
        assert outcome.abort is not None
        self.assertEqual(outcome.abort.why, Why.CLAIMED)

    def test_a_write_that_is_lost_is_sent_again_under_its_number(self) -> None:
        def ends(*_: object) -> bytes:
            raise Ends

        first = self.replica(1, serving(ends))
        second = self.replica(2, serving(lambda *_: done(9, (1,))))
        self.chain(first, second)
        self.assertEqual(self.store(first.address).increment("n"), 1)
        sent = [numbers(body) for replica in (first, second) for body in replica.asked("Execute")]
        self.assertEqual(set(sent), {(SESSION, 1)})

    def test_a_dead_replica_is_passed_by(self) -> None:
        first, second = (self.replica(n, serving(lambda *_: done(9, (1,)))) for n in (1, 2))
        self.chain(first, second)
        store = self.store(second.address)
        first.end()
        self.assertEqual(store.increment("n"), 1)
        self.assertEqual(len(second.asked("Execute")), 1)

    def test_another_replica_that_is_named_is_asked(self) -> None:
        first = self.replica(1, serving(lambda *_: refused(Refused.ELSEWHERE, 2)))
        second = self.replica(2, serving(lambda _, before: refused(Refused.BUSY) if before < 2 else done(9, (1,))))
        self.chain(first, second)
        store = self.store(first.address)
        self.assertEqual(store.increment("n"), 1)
        self.assertEqual((len(first.asked("Execute")), len(second.asked("Execute"))), (1, 3))
        store.increment("n")
        self.assertEqual(len(first.asked("Execute")), 1, "it has learned who is head")

    def test_a_session_that_is_forgotten_is_opened_anew_where_nothing_can_have_been_done(self) -> None:
        one = self.replica(1, serving(lambda _, before: refused(Refused.NO_SESSION) if before == 0 else done(9, (1,))))
        self.assertEqual(self.store(one.address).increment("n"), 1)
        self.assertEqual(len(one.asked("Open")), 2)

    def test_what_may_have_been_done_before_it_was_forgotten_is_not_known(self) -> None:
        def execute(_: bytes, before: int) -> bytes:
            if before == 0:
                raise Ends
            return refused(Refused.NO_SESSION)

        one = self.replica(1, serving(execute))
        store = self.store(one.address)
        with self.assertRaises(Unknown) as caught:
            store.increment("n")
        self.assertEqual((caught.exception.session, caught.exception.sequence), (SESSION, 1))
        self.assertIn(f"millrace txn status {SESSION.hex()} 1", str(caught.exception))

    def test_a_write_that_nobody_answers_is_not_known_and_a_read_is_not_done(self) -> None:
        def silent(*_: object) -> bytes:
            raise Hangs

        one = self.replica(1, serving(silent))
        store = self.store(one.address, deadline=0.2)
        self.assertRaises(NotDone, store.get, "k")
        with self.assertRaises(Unknown) as caught:
            store.execute(store.transaction().put("k", b"v"), deadline=3.0)
        self.assertEqual((caught.exception.session, caught.exception.sequence), (SESSION, 1))

    def test_a_write_that_was_never_sent_is_not_done(self) -> None:
        one = self.replica(1, serving(lambda *_: done()))
        store = self.store(one.address, deadline=0.2)
        one.end()
        self.assertRaises(NotDone, store.set, "k", b"v")

    def test_what_became_of_a_write_is_told(self) -> None:
        told: list[bytes] = []
        one = self.replica(1, lambda *_: told.pop(0))
        store = self.store(one.address)
        answer = Writer()
        answer.number(1, 1)
        answer.data(2, outcome(9, (4,)))
        told += [refused(Refused.BUSY, field=3), answer.done(), refused(Refused.NO_SESSION, field=3)]
        status = store.status(SESSION, 3)
        self.assertEqual((status.state, status.outcome and status.outcome.sums), (State.DONE, (4,)))
        self.assertEqual(store.status(SESSION, 3).state, State.FORGOTTEN)
        self.assertEqual(numbers(one.asked("Status")[0]), (SESSION, 3))

    def test_conditions_and_numbers(self) -> None:
        said: list[bytes] = []
        one = self.replica(1, serving(lambda *_: said.pop(0)))
        store = self.store(one.address)
        said += [aborted(Why.CONDITION, 0), aborted(Why.CONDITION, 1), done(11)]
        swaps = [store.cas("k", 3, b"v") for _ in range(3)]
        self.assertEqual([(swap.version, swap.found) for swap in swaps], [(None, False), (None, True), (11, True)])
        said += [aborted(Why.CONDITION)] * 3
        self.assertEqual((store.add("k", b"v"), store.replace("k", b"v"), store.delete("k")), (None, None, False))
        said += [aborted(Why.NOT_A_NUMBER), aborted(Why.OVERFLOW)]
        self.assertRaises(BadNumber, store.increment, "k")
        self.assertRaises(BadNumber, store.decrement, "k")
        said += [refused(Refused.MALFORMED)]
        self.assertRaises(Rejected, store.set, "k", b"v")
        for wrong in (lambda: store.get(""), lambda: store.set("k", bytes(65537)), lambda: store.increment("k", 1 << 63)):
            self.assertRaises(ValueError, wrong)
        self.assertEqual(store.get_many([]), [])

    def test_what_there_is_no_right_to_is_not_asked_again(self) -> None:
        def execute(_: bytes, __: int) -> bytes:
            raise Denies("no right to write key k")

        one = self.replica(1, serving(execute))
        store = self.store(one.address)
        with self.assertRaises(Rejected) as caught:
            store.set("k", b"v")
        self.assertIn("no right to write key k", str(caught.exception))
        self.assertRaises(Rejected, store.get, "k")
        self.assertEqual(len(one.asked("Execute")), 2)

    def test_who_joins_is_met_when_a_connection_is_made(self) -> None:
        first, second, third = (self.replica(n, serving(lambda *_: done(9, (1,)))) for n in (1, 2, 3))
        self.chain(first, second)
        store = self.store(first.address)
        store.increment("n")
        # The third joins, and then the first is gone: the second tells of both.
        for replica in (second, third):
            replica.epoch, replica.members = 2, [(2, second.address), (3, third.address)]
        first.end()
        store.increment("n")
        self.assertEqual(store.replicas[3], third.address)
        second.end()
        store.increment("n")
        self.assertEqual(len(third.asked("Execute")), 1)

    def test_a_chain_that_is_elsewhere_now_is_found_in_its_file(self) -> None:
        before, after = (self.replica(n, serving(lambda *_: done(9, (1,)))) for n in (1, 2))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "cluster.toml"
            text = '[[chain]]\nnumber = 7\n[[chain.replica]]\nid = {}\naddress = "{}"\n'
            path.write_text(text.format(1, before.address))
            with Cluster.from_file(path, deadline=LONG) as cluster:
                self.assertEqual(cluster.increment("n"), 1)
                path.write_text(text.format(2, after.address))
                before.end()
                self.assertEqual(cluster.increment("n"), 1)
                self.assertRaises(MillraceError, lambda: cluster.cache)
            self.assertEqual(len(after.asked("Execute")), 1)
            self.assertRaises(NotFound, Store, Finder([file(path)], 8, LONG))

    def test_who_is_not_whom_it_should_be_is_not_asked(self) -> None:
        one = self.replica(1, serving(lambda *_: done()))
        other = self.replica(2, serving(lambda *_: done()), chain=8)
        with self.assertRaises(NotFound) as caught:
            Store(Finder([replicas([other.address])], 7, LONG))
        self.assertIn("chain 8", str(caught.exception))
        # The first says that the other is the head; who is there is of another chain.
        one.members = [(2, other.address), (1, one.address)]
        store = self.store(one.address)
        self.assertEqual(store.set("k", b"v"), 9)
        self.assertEqual(other.asked("Execute"), [])

    def test_nobody_is_said_with_what_was_tried(self) -> None:
        gone = self.replica(1, serving(lambda *_: done()))
        gone.end()
        for address, words in [(gone.address, "refused"), ("shm:/run/x", "speaks tcp:HOST:PORT"), ("tcp:h:x", "tcp:h:x")]:
            with self.assertRaises(NotFound) as caught:
                self.store(address)
            self.assertIn(words, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
