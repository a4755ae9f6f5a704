"""What a client decides by itself: outcomes of tries, and whether its box is worth asking."""

import random
import unittest

from millrace.compute import unchanged
from millrace.wire import REPLY, Op, Packet, Status
from millrace.worth import Worth


def on(op: Op, value: bytes | None, given: bytes = b"", operand: int = 0, version: int = 0) -> tuple[Status, int] | None:
    """What becomes of `op` where version 3 of `value` is, or nothing."""
    request = Packet(op, b"k", given, operand=operand, version=version)
    status = Status.MISS if value is None else Status.OK
    return unchanged(request, Packet(op | REPLY, b"k", value or b"", status=status, version=3))


class Outcomes(unittest.TestCase):
    def test_conditions_that_do_not_hold_change_nothing(self) -> None:
        self.assertEqual(on(Op.ADD, b"x"), (Status.EXISTS, 0))
        self.assertEqual(on(Op.CAS, b"x", version=4), (Status.EXISTS, 0))
        self.assertEqual(on(Op.CAS, None, version=4), (Status.MISS, 0))
        self.assertEqual(on(Op.DELETE, b"x", version=4), (Status.EXISTS, 0))
        self.assertEqual(on(Op.DELETE, None), (Status.MISS, 0))
        self.assertEqual(on(Op.APPEND, None, b"x"), (Status.MISS, 0))
        self.assertEqual(on(Op.APPEND, b"abc", b"d", operand=3), (Status.NO_ROOM, 0))
        self.assertEqual(on(Op.APPEND, bytes(65056), b"d"), (Status.NO_ROOM, 0))
        self.assertEqual(on(Op.COND_PUT, b"10", operand=10), (Status.NOT_STORED, 10))
        for op, operand in [(Op.MIN, 11), (Op.MAX, 9), (Op.OR, 2)]:
            self.assertEqual(on(op, b"10", operand=operand), (Status.OK, 10))

    def test_numbers_are_decimal_and_small(self) -> None:
        for text in (b"ten", b"", b"-1", b" 1", b"18446744073709551616", b"000000000000000000001"):
            self.assertEqual(on(Op.MAX, text, operand=1), (Status.NOT_NUMBER, 0), text)
        self.assertEqual(on(Op.MIN, b"18446744073709551615", operand=2**64 - 1), (Status.OK, 2**64 - 1))

    def test_what_would_change_something_is_left_to_the_home(self) -> None:
        changes = [
            on(Op.ADD, None), on(Op.CAS, b"x", version=3), on(Op.DELETE, b"x"), on(Op.DELETE, b"x", version=3),
            on(Op.APPEND, b"abc", b"d", operand=4), on(Op.APPEND, b"abc", b"d"), on(Op.COND_PUT, b"10", operand=11),
            on(Op.COND_PUT, None, operand=1), on(Op.MIN, b"10", operand=9), on(Op.MAX, b"10", operand=11),
            on(Op.OR, b"10", operand=1), on(Op.OR, None, operand=1),
        ]  # fmt: skip
        self.assertEqual(set(changes), {None})
        large = Packet(Op.ADD | REPLY, b"k", status=Status.TOO_LARGE)
        self.assertIsNone(unchanged(Packet(Op.ADD, b"k", b"v"), large))


def through(worth: Worth, reads: int, answered: bool) -> int:
    """How many of these reads went through the box."""
    count = 0
    for _ in range(reads):
        if worth.asks():
            worth.note(answered)
            count += 1
    return count


class BoxOrHome(unittest.TestCase):
    def setUp(self) -> None:
        random.seed(7)

    def test_a_box_that_never_answers_is_asked_for_samples(self) -> None:
        worth = Worth(10)
        self.assertTrue(500 < through(worth, 1000, False) < 800)
        self.assertTrue(850 < through(worth, 8000, False) < 1150)
        self.assertEqual(worth.asked + worth.direct, 9000)

    def test_it_comes_back_when_the_box_answers(self) -> None:
        for least in (1, 10, 60, 99):
            worth = Worth(least)
            through(worth, 3000, False)
            through(worth, 15_000, True)
            self.assertEqual(through(worth, 100, True), 100, least)

    def test_zero_asks_always(self) -> None:
        self.assertEqual(through(Worth(0), 5000, False), 5000)


if __name__ == "__main__":
    unittest.main()
