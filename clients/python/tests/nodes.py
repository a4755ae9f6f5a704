"""Nodes that say what a test tells them to, at sockets of their own."""

import socket
import threading
from collections.abc import Callable
from dataclasses import replace

from millrace.topology import Address, Topology, Tuning
from millrace.wire import NEVER, REPLY, Packet, Status, parse

Answer = Callable[[Packet], list[Packet | bytes]]
"""What is sent back for a request: packets, or bytes that are none."""


def reply(request: Packet, status: Status = Status.OK, **fields: object) -> Packet:
    """As nodes reply: with the request's names, and what is said beside them."""
    plain = replace(request, opcode=request.opcode | REPLY, value=b"", flags=0, version=0, ttl=NEVER, status=status)
    return replace(plain, **fields)


class Node:
    """A thread that answers."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.heard: list[Packet] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def address(self) -> Address:
        return self._socket.getsockname()

    def _run(self) -> None:
        while True:
            datagram, sender = self._socket.recvfrom(1 << 16)
            if not datagram:
                return
            request = parse(datagram)
            self.heard.append(request)
            for said in self.answer(request):
                self._socket.sendto(said if isinstance(said, bytes) else said.emit(), sender)

    def end(self) -> None:
        """Ends the thread: by an empty datagram."""
        self._socket.sendto(b"", self.address)
        self._thread.join()
        self._socket.close()


def rack(box: Node, home: Node, **tuning: object) -> Topology:
    """A box, and home 4. Patience is long: what a test expects comes long before."""
    tuned = Tuning(**{"patience": 60.0, "retransmit": 0.01, "retransmit_max": 0.02, **tuning})
    return Topology(64, {4: home.address}, {1: box.address}, tuning=tuned)
