"""Why an operation has no result."""

from .wire import Status


class MillraceError(Exception):
    """What all others are."""


class NotDone(MillraceError):
    """Nobody answered. It was not done, and will not be."""

    def __init__(self) -> None:
        super().__init__("nobody answered, and nothing was done; are the nodes of the topology running? Have they this client's key?")


class Unknown(MillraceError):
    """Nobody answered. Whether it was done, or will be, is not known; it is never done twice."""

    def __init__(self) -> None:
        super().__init__("nobody answered; whether it was done is not known: get would say")


class Refused(MillraceError):
    """It was not done, for the reason in `status`."""

    _WORDS = {
        Status.TOO_LARGE: "the value does not fit a datagram",
        Status.NOT_NUMBER: "what is there is no number",
        Status.NO_ROOM: "in the value, or at the home",
        Status.UNPROVEN: "only clients with the cluster's key may write; name it in the topology: [cluster] client_key = \"FILE\"",
        Status.NOT_HOME: "the home goes by another topology; all must have the same file",
    }

    def __init__(self, status: Status) -> None:
        words = self._WORDS.get(status)
        super().__init__(f"{status.name}: {words}" if words else status.name)
        self.status = status


class BadTopology(MillraceError):
    """The file does not describe a topology; the message says why."""
