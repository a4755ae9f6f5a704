"""Messages of the chain's service against docs/txn-vectors.jsonl, and bytes that are none."""

import json
import random
import unittest
from pathlib import Path
from typing import Any

from millrace import fabric, txn
from millrace.fabric import Lost
from millrace.protobuf import Malformed, Writer, fields
from millrace.txn import Info, Outcome, Refusal, Status, Transaction

VECTORS = Path(__file__).parents[3] / "docs" / "txn-vectors.jsonl"


def shown(outcome: Outcome) -> dict[str, Any]:
    return {
        "lsn": outcome.lsn,
        "abort": outcome.abort and [outcome.abort.why.name, outcome.abort.place],
        "reads": [found and [found.version, found.value.hex()] for found in outcome.reads],
        "sums": list(outcome.sums),
        "durability": outcome.durability.name,
        "copies": outcome.copies,
    }


def refusal(said: Refusal) -> dict[str, Any]:
    return {"refusal": {"why": said.why.name, "replica": said.replica, "text": said.text}}


def fields_of(message: str, data: bytes) -> dict[str, Any]:
    """What a message says, as the vectors have it."""
    match message:
        case "ExecuteReply":
            said = txn.answer(data)
            return refusal(said) if isinstance(said, Refusal) else {"outcome": shown(said)}
        case "StatusReply":
            told = txn.status(data)
            if isinstance(told, Refusal):
                return refusal(told)
            assert isinstance(told, Status)
            return {"state": told.state.name} | ({"outcome": shown(told.outcome)} if told.outcome else {})
        case "OpenReply":
            opened = txn.opened(data)
            return refusal(opened) if isinstance(opened, Refusal) else {"session": opened[0].hex(), "window": opened[1]}
        case "InfoReply":
            info = Info.parse(data)
            members = [[member.replica, member.syncing, member.address] for member in info.members]
            return {"chain": info.chain, "replica": info.replica, "epoch": info.epoch, "members": members}
    raise AssertionError(message)


def value(what: str, said: Any) -> Any:
    return bytes.fromhex(said) if what in ("value", "put") else said


def request(said: dict[str, Any]) -> bytes:
    transaction = Transaction()
    transaction.conditions = [(bytes.fromhex(key), what, value(what, said)) for key, what, said in said["conditions"]]
    transaction.reads = [bytes.fromhex(key) for key in said["reads"]]
    transaction.writes = [(bytes.fromhex(key), what, value(what, said)) for key, what, said in said["writes"]]
    return txn.request(bytes.fromhex(said["session"]), said["sequence"], transaction.emit())


class Words(unittest.TestCase):
    def test_messages_are_those_of_the_vectors(self) -> None:
        seen = set()
        for line in VECTORS.read_text().splitlines():
            vector = json.loads(line)
            message, data = vector["message"], bytes.fromhex(vector["bytes"])
            with self.subTest(vector["name"]):
                if message == "ExecuteRequest":
                    self.assertEqual(request(vector["fields"]).hex(), data.hex())
                else:
                    self.assertEqual(fields_of(message, data), vector["fields"])
            seen.add(message)
        self.assertEqual(len(seen), 5)

    def test_bytes_that_are_no_message_are_refused(self) -> None:
        parsers = [txn.answer, txn.status, txn.opened, Info.parse, lambda data: list(fields(data))]
        messages = [bytes.fromhex(json.loads(line)["bytes"]) for line in VECTORS.read_text().splitlines()]
        drawn = random.Random(5)
        for _ in range(4000):
            data = bytearray(drawn.choice(messages))
            for _ in range(drawn.randrange(4)):
                if data:
                    data[drawn.randrange(len(data))] = drawn.randrange(256)
            del data[drawn.randrange(len(data) + 1) :]
            for parse in parsers:
                try:
                    parse(bytes(data))
                except Malformed:
                    pass

    def test_what_is_newer_is_skipped_or_said(self) -> None:
        out = Writer()
        out.number(1, 5)
        out.data(99, b"later")
        self.assertEqual(Outcome.parse(out.done()).lsn, 5)
        abort, newer = Writer(), Writer()
        abort.number(1, 77)
        newer.data(2, abort.done())
        self.assertRaisesRegex(Malformed, "newer than this client", Outcome.parse, newer.done())


class Frames(unittest.TestCase):
    def test_bytes_that_are_no_frame_are_lost(self) -> None:
        whole = fabric.emit(7, b"body", method=1, call=2, aux=3)[4:]
        self.assertEqual(fabric.parse(whole), fabric.Frame(7, 1, 2, 3, b"body"))
        drawn = random.Random(6)
        for _ in range(2000):
            data = bytearray(whole)
            data[drawn.randrange(len(data))] = drawn.randrange(256)
            del data[drawn.randrange(len(data) + 1) :]
            for parse in (fabric.parse, lambda data: fabric.welcome(data, "millrace.Txn")):
                try:
                    parse(bytes(data))
                except Lost:
                    pass


if __name__ == "__main__":
    unittest.main()
