"""Which chain a key is in, where there are several: a key has a slot of 16,384, each of which is one chain's. As `crates/protocol/src/chain/slots.rs`.

    key -> what is between its braces, or all of it -> CRC-16 -> slot

Slots are those of Redis Cluster, so keys with the same `{tag}` are in one chain. Keys of a zero byte are no items: what lies beside an item is where the
item is, and what a chain notes of itself has no slot.
"""

import binascii

SLOTS = 1 << 14
MAX_RANGES = 256

Ranges = tuple[tuple[int, int], ...]
"""The first and the last slot of each range; ranges rise."""


def slot(key: bytes) -> int | None:
    """The slot of a key; `None` for what is each chain's own."""
    item = key[1:] if key[:1] == b"\0" else key
    if item[:1] in (b"", b"\0"):
        return None
    return binascii.crc_hqx(_tag(item), 0) % SLOTS


def _tag(key: bytes) -> bytes:
    """What of a key counts: what is between its first brace and the next one that closes, if anything is."""
    opens = key.find(b"{")
    closes = key.find(b"}", opens + 1)
    return key if opens < 0 or closes <= opens + 1 else key[opens + 1 : closes]


def ranges(text: str) -> Ranges:
    """Slots as `"0-8191"` or `"0-99, 200, 300-399"`; raises `ValueError`."""
    read = []
    for piece in text.split(","):
        ends = [end.strip() for end in piece.split("-")]
        if len(ends) > 2 or not all(end.isascii() and end.isdigit() for end in ends):
            raise ValueError('write ranges of slots, as "0-8191" or "0-99, 200, 300-399"')
        first, last = int(ends[0]), int(ends[-1])
        if first > last or last >= SLOTS:
            raise ValueError(f"{first}-{last}: a range rises, and slots are 0 to {SLOTS - 1}")
        read.append((first, last))
    read.sort()
    whole: list[tuple[int, int]] = []
    for first, last in read:
        if whole and whole[-1][1] >= first:
            raise ValueError(f"slot {first} is there twice")
        if whole and whole[-1][1] + 1 == first:
            whole[-1] = (whole[-1][0], last)
        else:
            whole.append((first, last))
    if len(whole) > MAX_RANGES:
        raise ValueError(f"at most {MAX_RANGES} ranges")
    return tuple(whole)


def share(at: int, of: int) -> str:
    """Share `at` of all slots, from 0, where `of` have as many as each other, or one more."""
    return f"{at * SLOTS // of}-{(at + 1) * SLOTS // of - 1}"


def table(chains: dict[int, Ranges]) -> list[int]:
    """The number of the chain of each slot; raises `ValueError` where one is of two, or of none."""
    found: list[int | None] = [None] * SLOTS
    for chain, of_it in chains.items():
        for first, last in of_it:
            for at in range(first, last + 1):
                if (other := found[at]) is not None:
                    raise ValueError(f"slot {at} is chain {other}'s, and chain {chain}'s: it can be one's alone")
                found[at] = chain
    whole = [chain for chain in found if chain is not None]
    if len(whole) < SLOTS:
        raise ValueError(f"slot {found.index(None)} is no chain's: give it to one")
    return whole
