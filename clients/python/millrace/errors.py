"""Why an operation has no result."""

from .wire import Status


class MillraceError(Exception):
    """What all others are."""


class NotFound(MillraceError):
    """Nobody of the cluster was found, where it was looked; the message says why. Nothing was sent."""


class NotDone(MillraceError):
    """Nobody answered. It was not done, and will not be."""

    def __init__(self, why: str = "nobody answered, and nothing was done; are the nodes of the topology running? Have they this client's key?") -> None:
        super().__init__(why)


class Unknown(MillraceError):
    """Nobody answered. Whether it was done, or will be, is not known; it is never done twice. Of a write to a chain, `Store.status` tells with
    `session` and `sequence` what became of it."""

    def __init__(self, why: str | None = None, session: bytes = b"", sequence: int = 0) -> None:
        tells = f"\n  `millrace txn status {_shown(session)} {sequence}`, or Store.status, tells what became of it" if session else ": get would say"
        super().__init__("nobody answered" + ("" if why is None else f" ({why})") + "; whether it was done is not known" + tells)
        self.session = session
        self.sequence = sequence


def _shown(session: bytes) -> str:
    """A session, as `millrace txn status` takes it."""
    return session.hex()


class Rejected(MillraceError):
    """The chain does not take it: what it asks is no transaction, or too long. It was not done."""


class Across(MillraceError):
    """A transaction has `keys` of two `chains`, and there is no agreement between chains. It was not done."""

    def __init__(self, keys: tuple[bytes, bytes], chains: tuple[int, int]) -> None:
        one, other = keys
        super().__init__(
            f"not done: {one!r} is in chain {chains[0]} and {other!r} in chain {chains[1]}, and a transaction is of one chain. Ask for them one by one; or name "
            "keys that belong together with the same tag, as {tag}a and {tag}b: then they are in one chain"
        )
        self.keys = keys
        self.chains = chains


class BadNumber(MillraceError):
    """What is there is no number, or the sum does not fit 64 bits with a sign. Nothing was changed."""


class NoRoom(MillraceError):
    """The chain has no room for it. Nothing was changed."""

    def __init__(self) -> None:
        super().__init__("not done: the chain has no room for it; give its replicas more --data-size")


class TooLong(MillraceError):
    """What is read is too much for one reply."""

    def __init__(self) -> None:
        super().__init__("what it reads is too much for one reply: read it in several")


class Claimed(MillraceError):
    """Boxes have copies of the chain's items, and it did not come by their home; or another home has taken over. Nothing was changed."""

    def __init__(self) -> None:
        super().__init__("not done: items of this chain have boxes before them, so what writes goes by their home: `millrace chain status` says where it is")


class Refused(MillraceError):
    """It was not done, for the reason in `status`, if there is a status for it, and in the text."""

    _WORDS = {
        Status.TOO_LARGE: "the value does not fit a datagram",
        Status.NOT_NUMBER: "what is there is no number",
        Status.NO_ROOM: "in the value, or at the home",
        Status.UNPROVEN: "only clients with the cluster's key may write; name it in the topology: [cluster] client_key = \"FILE\"",
        Status.NOT_HOME: "the home goes by another topology; all must have the same file",
    }

    def __init__(self, status: Status | None, why: str | None = None) -> None:
        words = why if status is None else (why or self._WORDS.get(status))
        super().__init__(words if status is None else f"{status.name}: {words}" if words else status.name)
        self.status = status


class BadTopology(MillraceError):
    """The file does not describe a topology; the message says why."""
