"""Slots against docs/slot-vectors.jsonl, and a store of several chains."""

import json
import tempfile
import unittest
from pathlib import Path

from chained import SESSION, Answer, Replica, done, outcome, refused
from test_store import LONG, serving

from millrace import Across, Cluster, NotFound, Shards, State
from millrace.protobuf import Writer
from millrace.slots import SLOTS, ranges, share, slot, table
from millrace.txn import Refused

VECTORS = Path(__file__).parents[3] / "docs" / "slot-vectors.jsonl"


class Slots(unittest.TestCase):
    def test_they_are_those_of_the_vectors(self) -> None:
        vectors = [json.loads(line) for line in VECTORS.read_text().splitlines()]
        for vector in vectors:
            self.assertEqual(slot(bytes.fromhex(vector["key"])), vector["slot"], vector)
        self.assertGreater(len(vectors), 64)

    def test_sets_are_read_and_mistakes_said(self) -> None:
        self.assertEqual(ranges(" 300-399, 0-99,100"), ((0, 100), (300, 399)))
        for text, words in [("", "write"), ("1-2-3", "write"), ("5-4", "rises"), ("0-16384", "16383"), ("0-9,9", "slot 9 is there twice")]:
            with self.assertRaisesRegex(ValueError, words):
                ranges(text)
        for of in (1, 2, 3, 7):
            self.assertEqual(len(table({at: ranges(share(at, of)) for at in range(of)})), SLOTS)


class Several(unittest.TestCase):
    def replica(self, answer: Answer, chain: int) -> Replica:
        replica = Replica(1, answer, chain)
        self.addCleanup(replica.end)
        return replica

    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def cluster(self, *chains: Replica) -> Cluster:
        path = Path(self.folder.name) / "cluster.toml"
        text = '[[chain]]\nnumber = {}\nslots = "{}"\n[[chain.replica]]\nid = 1\naddress = "{}"\n'
        each = enumerate(chains)
        path.write_text("".join(text.format(chain.chain, share(at, len(chains)), chain.address) for at, chain in each))
        cluster = Cluster.from_file(path, deadline=LONG)
        self.addCleanup(cluster.close)
        return cluster

    def test_a_key_goes_to_its_chain_and_a_transaction_over_two_nowhere(self) -> None:
        low, high = (self.replica(serving(lambda *_: done(9, (1,))), chain) for chain in (7, 8))
        cluster = self.cluster(low, high)
        assert isinstance(cluster.store, Shards)
        # Slots 12182 and 5061.
        self.assertEqual([cluster.store.chain_of(key) for key in ("foo", "bar")], [8, 7])
        cluster.increment("foo")
        self.assertEqual([len(replica.asked("Execute")) for replica in (low, high)], [0, 1])
        cluster.transaction().expect_absent("{bar}x").put("{bar}y", b"1").read("bar").commit()
        self.assertEqual([len(replica.asked("Execute")) for replica in (low, high)], [1, 1])
        with self.assertRaises(Across) as caught:
            cluster.transaction().read("bar").put("foo", b"1").commit()
        self.assertEqual((caught.exception.keys, caught.exception.chains), ((b"bar", b"foo"), (7, 8)))
        self.assertRaises(Across, cluster.store.get_many, ["foo", "bar"])
        self.assertEqual([len(replica.asked("Execute")) for replica in (low, high)], [1, 1])

    def test_a_chain_that_is_gone_keeps_its_own_keys_alone(self) -> None:
        low, high = (self.replica(serving(lambda *_: done(9, (1,))), chain) for chain in (7, 8))
        high.end()
        cluster = self.cluster(low, high)
        self.assertEqual(cluster.increment("bar"), 1)
        self.assertRaises(NotFound, cluster.increment, "foo")
        low.end()
        self.assertRaises(NotFound, self.cluster, low, high)

    def test_the_chain_that_knows_a_session_tells_what_became_of_it(self) -> None:
        def forgetful(method: str, _: bytes) -> bytes:
            return refused(Refused.NO_SESSION, field=3) if method == "Status" else b""

        def knows(method: str, _: bytes) -> bytes:
            reply = Writer()
            reply.number(1, State.DONE)
            reply.data(2, outcome(9))
            return reply.done() if method == "Status" else b""

        low, high = self.replica(forgetful, 7), self.replica(knows, 8)
        cluster = self.cluster(low, high)
        self.assertEqual(cluster.store.status(SESSION, 1).state, State.DONE)


if __name__ == "__main__":
    unittest.main()
