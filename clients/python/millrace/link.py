"""A client's socket: sends a request, and again, until its reply comes or time is over.

What is lost, doubled, damaged, late or from a stranger is dealt with here: a reply is taken only if it answers this request.
"""

import contextlib
import ipaddress
import random
import socket
import time
from collections.abc import Callable

from .topology import Address, Topology
from .wire import MAX_DATAGRAM, REPLY, Malformed, Op, Packet, Status, parse

Route = Callable[[Packet], Address]
"""Where a request is sent to. It sees which attempt it is, and may set flags."""


class Link:
    """One socket. It is used by one thread at a time."""

    def __init__(self, topology: Topology) -> None:
        self._nodes = topology.addresses()
        self._tuning = topology.tuning
        hosts = [ipaddress.ip_address(host) for host, _ in self._nodes]
        is_v6, is_near = hosts[0].version == 6, all(host.is_loopback for host in hosts)
        self._socket = socket.socket(socket.AF_INET6 if is_v6 else socket.AF_INET, socket.SOCK_DGRAM)
        local = ("::1" if is_v6 else "127.0.0.1") if is_near else ""
        self._socket.bind((local, 0))

    def close(self) -> None:
        """Lets the port go."""
        self._socket.close()

    def ask(self, request: Packet, route: Route, deadline: float) -> Packet | None:
        """The reply to `request`, or `None` if there is none by `deadline`. BUSY is no reply: it is asked again later."""
        pause = self._tuning.retransmit
        while time.monotonic() < deadline:
            to = route(request)
            with contextlib.suppress(OSError):  # What the system does not take is as good as lost.
                self._socket.sendto(request.emit(), to)
            until = time.monotonic() + pause * random.uniform(1, 1.25)
            reply = self._hear(request, min(until, deadline))
            if reply is not None:
                return reply
            request.attempt = min(request.attempt + 1, 0xFFFF)
            pause = min(2 * pause, self._tuning.retransmit_max)
        return None

    def _hear(self, request: Packet, until: float) -> Packet | None:
        """The reply, if it comes by then."""
        while (left := until - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                datagram, sender = self._socket.recvfrom(MAX_DATAGRAM + 1)
                packet = parse(datagram)
            except (TimeoutError, Malformed, ConnectionError):
                continue
            if sender[:2] in self._nodes and answers(packet, request) and packet.status != Status.BUSY:
                return packet
        return None


def answers(packet: Packet, request: Packet) -> bool:
    """Whether it is a reply to this request, or to an earlier attempt of it."""
    same_session = request.opcode == Op.SESSION or packet.round == request.round
    return (
        packet.opcode == request.opcode | REPLY
        and packet.client == request.client
        and packet.operation == request.operation
        and packet.home == request.home
        and packet.key == request.key
        and same_session
    )
