"""Packets are those of docs/wire-vectors.jsonl, byte by byte, and what is none there is refused."""

import json
import unittest
from dataclasses import asdict
from pathlib import Path

from millrace.hash import SUM_BASE, extend, key_hash, padded
from millrace.proof import CLIENT, HOME, Seal, client_key, siphash, tag
from millrace.wire import MAX_DATAGRAM, MAX_KEY, MAX_VALUE, Flags, Malformed, Op, Packet, parse

VECTORS = Path(__file__).parents[3] / "docs" / "wire-vectors.jsonl"
DERIVED = {"magic", "protocol", "hash", "checksum", "key_len", "value_len"}
"""Fields that follow from others."""


class Wire(unittest.TestCase):
    def setUp(self) -> None:
        self.vectors = [json.loads(line) for line in VECTORS.read_text().splitlines()]

    def test_packets_are_what_the_fields_say_and_the_other_way_round(self) -> None:
        packets = [vector for vector in self.vectors if "fields" in vector]
        self.assertGreater(len(packets), 30)
        for vector in packets:
            with self.subTest(vector["name"]):
                datagram = bytes.fromhex(vector["packet"])
                packet = parse(datagram)
                self.assertEqual(packet.emit(), datagram)
                said = asdict(packet)
                self.assertEqual(said.pop("key").hex(), vector["key"])
                self.assertEqual(said.pop("value").hex(), vector["value"])
                self.assertEqual(said.pop("padding"), vector["padding"])
                self.assertEqual(said.pop("proof").hex(), vector["proof"])
                said["flags"] |= Flags.SEALED if packet.proof else 0
                fields = {name: field for name, field in vector["fields"].items() if name not in DERIVED}
                said["address"] = said["address"].hex()
                said["sharer_boxes"] = list(said["sharer_boxes"])
                said["sharer_tokens"] = list(said["sharer_tokens"])
                self.assertEqual(said, fields)

    def test_what_is_no_packet_is_refused(self) -> None:
        bad = [vector for vector in self.vectors if "fields" not in vector]
        self.assertGreater(len(bad), 10)
        for vector in bad:
            with self.subTest(vector["name"]), self.assertRaises(Malformed):
                parse(bytes.fromhex(vector["packet"]))

    def test_every_changed_bit_of_a_packet_is_seen(self) -> None:
        datagram = Packet(Op.SET, b"key", b"value").emit()
        for bit in range(8 * len(datagram)):
            damaged = bytearray(datagram)
            damaged[bit // 8] ^= 1 << bit % 8
            with self.subTest(bit=bit), self.assertRaises(Malformed):
                parse(bytes(damaged))

    def test_the_function_is_siphash_2_4_128(self) -> None:
        # The authors' vectors.
        key = bytes(range(16))
        self.assertEqual(siphash(key, b"").hex(), "a3817f04ba25a8e66df67214c7550293")
        self.assertEqual(siphash(key, bytes(range(15))).hex(), "5493e99933b0a8117e08ec0f97cfc3d9")

    def test_tags_are_those_of_the_vectors(self) -> None:
        cluster = bytes(range(16))
        keys = {CLIENT: client_key(cluster)}
        home_2 = bytes([HOME, 0, 2]) + bytes(13)
        sealed = [vector for vector in self.vectors if vector.get("proof")]
        self.assertGreater(len(sealed), 2)
        for vector in sealed:
            packet = parse(bytes.fromhex(vector["packet"]))
            key = keys.get(packet.proof[0], tag(cluster, b"derive", b"cache/member"))
            with self.subTest(vector["name"]):
                self.assertEqual(tag(key, packet.body(), packet.proof[:16], home_2), packet.proof[16:])

    def test_a_client_seals_as_the_vectors_do(self) -> None:
        vector = next(vector for vector in self.vectors if vector["name"].startswith("SET, sealed"))
        packet = parse(bytes.fromhex(vector["packet"]))
        seal = Seal(client_key(bytes(range(16))), packet.client)
        self.assertEqual(seal.prove(packet.body(), (HOME, 2)).hex(), vector["proof"])

    def test_the_longest_packet_fits_a_datagram(self) -> None:
        datagram = Packet(Op.SET, b"k" * MAX_KEY, b"v" * MAX_VALUE).emit()
        self.assertLessEqual(len(datagram), MAX_DATAGRAM)
        self.assertEqual(parse(datagram).value, b"v" * MAX_VALUE)

    def test_hashes_and_sums_are_the_documents(self) -> None:
        document = (VECTORS.parent / "wire.md").read_text()
        for key in (b"", b"a", b"12345678", b"123456789", b"user:1", b"a key of somewhat more than three words"):
            filled = key.ljust(padded(len(key)), b"\0")
            words = [int.from_bytes(filled[i : i + 4], "little") for i in range(0, len(filled), 4)]
            row = f"| `{key_hash(key):08x}` | `{extend(0, words):016x}` |"
            self.assertIn(row, document)
        self.assertIn(f"`{key_hash(bytes(range(250))):08x}`, of the 250 bytes", document)
        self.assertIn(f"{SUM_BASE:#x}", document)


if __name__ == "__main__":
    unittest.main()
