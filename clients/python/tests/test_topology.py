"""The file is read as nodes read it, and errors say what would be right."""

import tempfile
import tomllib
import unittest
from pathlib import Path

from millrace.errors import BadTopology
from millrace.topology import Topology, Tuning

BOX = '[[box]]\nid = 2\naddress = "127.0.0.1:7101"\nabove = []\n'
HOME = '[[home]]\nid = {0}\naddress = "127.0.0.1:710{0}"\nbox = 2\n'
RACK = BOX + HOME.format(7) + HOME.format(3)


def parse(text: str) -> Topology:
    return Topology.parse(tomllib.loads(text))


class Topologies(unittest.TestCase):
    def test_what_clients_need_is_read(self) -> None:
        text = "slots = 4\n" + RACK + '[[controller]]\naddress = "127.0.0.1:7109"\n[coherence]\npatience = "2000000"\nworth = 0\n'
        topology = parse(text)
        self.assertEqual(list(topology.homes), [7, 3])
        self.assertEqual(topology.boxes, {2: ("127.0.0.1", 7101)})
        self.assertIn(("127.0.0.1", 7109), topology.nodes())
        self.assertEqual(topology.tuning, Tuning(patience=2.0, worth=0))
        self.assertEqual((topology.box(None), topology.box(2)), (2, 2))

    def test_slots_are_the_upper_bits_and_go_to_homes_in_turn(self) -> None:
        topology = parse("slots = 4\n" + RACK)
        homes = [topology.home_of(slot << 30 | rest) for slot in range(4) for rest in (0, (1 << 30) - 1)]
        self.assertEqual(homes, [7, 7, 3, 3, 7, 7, 3, 3])

    def test_registers_are_the_defaults_of_the_nodes(self) -> None:
        self.assertEqual(parse(RACK).tuning, Tuning())
        self.assertFalse(parse(RACK + '[coherence]\ncompute = "at_home"\n').tuning.tries_first)

    def test_errors_say_what_would_be_right(self) -> None:
        for text, words in [
            ("", "at least one box"),
            ("slots = 3\n" + RACK, "power of two"),
            (RACK + BOX, "an id of its own"),
            (RACK.replace(":7101", ""), "write for example 127.0.0.1:7101"),
            (RACK.replace(":7101", ":0"), "write for example"),
            (RACK.replace("127.0.0.1:7101", "here:1"), "write for example"),
            ("box = 1\n" + HOME.format(1), "must be tables"),
            (RACK + '[coherence]\npatience = "soon"\n', "whole number"),
        ]:
            with self.subTest(words), self.assertRaisesRegex(BadTopology, words):
                parse(text)
        with self.assertRaisesRegex(BadTopology, "its boxes are 2"):
            parse(RACK).box(1)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rack.toml"
            file.write_text("box = [")
            with self.assertRaisesRegex(BadTopology, "rack.toml makes no sense"):
                Topology.read(file)


if __name__ == "__main__":
    unittest.main()
