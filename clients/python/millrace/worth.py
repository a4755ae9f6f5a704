"""Whether a client's box is worth asking: one that seldom answers only makes the way to the home longer.

The share of reads that a box answered is averaged over the last 256 or so that went through it, beginning with all. Below `least`
percent one read in eight, drawn at random, still asks the box: so the share stays measured and boxes learn what is hot. All do again
when the share is twice that, or halfway to all. No promise rests on it: reads at the home are right at any time.
"""

import random

_WINDOW = 256
_SAMPLES = 8


class Worth:
    """What a client thinks of its box."""

    def __init__(self, least: int) -> None:
        self._leave = least / 100
        self._return = min(2 * self._leave, (1 + self._leave) / 2)
        self._share = 1.0
        self._samples = False
        self.asked = 0
        self.answered = 0
        self.direct = 0

    def asks(self) -> bool:
        """Whether the next read goes through the box."""
        asks = not self._samples or random.randrange(_SAMPLES) == 0
        self.asked += asks
        self.direct += not asks
        return asks

    def note(self, by_box: bool) -> None:
        """A read that went through the box has its answer, from a box or not."""
        self.answered += by_box
        self._share += (by_box - self._share) / _WINDOW
        self._samples = self._share < (self._return if self._samples else self._leave)
