"""A client's socket: sends a request, and again, until its reply comes or time is over.

What is lost, doubled, damaged, late, forged or from a stranger is dealt with here: a reply is taken only if it answers this request. With
a key all but reads is sealed, and answered so; reads go without, with as much padding as their reply needs.
"""

import contextlib
import ipaddress
import random
import socket
import time
from collections.abc import Callable

from .moved import learn, told
from .proof import BOX, HOME, Seal
from .topology import Address, Topology
from .wire import MAX_DATAGRAM, REPLY, Malformed, Op, Packet, Status, parse

READ = 1 << 63
"""The numbers of reads have this bit, so that none is a write's."""
_SMALL = 184
"""Bytes of padding of every GET: most values need no more."""

Route = Callable[[Packet], Address]
"""Where a request is sent to. It sees which attempt it is, and may set flags."""


class Link:
    """One socket. It is used by one thread at a time."""

    def __init__(self, topology: Topology, client: int, first_box: int) -> None:
        self._first_box = first_box
        self.homes = dict(topology.homes)
        """Where they are, as far as is known."""
        self._moved = dict(topology.moved)
        self._boxes = topology.boxes
        self._nodes = topology.nodes()
        self._client = client
        self._asked: Packet | None = None
        """The question where homes are that was asked last."""
        self._turn, self._ask_at = 0, 0.0
        key = topology.client_key()
        self._seal = None if key is None else Seal(key, client)
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
        if request.opcode == Op.GET:
            request.padding = _SMALL
        while time.monotonic() < deadline:
            to = route(request)
            with contextlib.suppress(OSError):  # What the system does not take is as good as lost.
                self._socket.sendto(self._sealed(request, to), to)
            until = time.monotonic() + pause * random.uniform(1, 1.25)
            at_home = self.homes.get(request.home) == to
            reply = self._hear(request, min(until, deadline), to if at_home else None)
            if reply is not None and reply.status == Status.PAD:
                request.padding = reply.operand - len(request.body())
                continue
            if reply is not None:
                return reply
            if at_home and request.attempt > 0:
                self._ask_where_homes_are()
            request.attempt = min(request.attempt + 1, 0xFFFF)
            pause = min(2 * pause, self._tuning.retransmit_max)
        return None

    def _ask_where_homes_are(self) -> None:
        """A home did not answer twice: asks the next box where homes are, unless one was asked lately."""
        now = time.monotonic()
        if now < self._ask_at:
            return
        self._ask_at = now + max(self._tuning.bypass, self._tuning.retransmit_max)
        boxes = sorted(self._boxes, key=lambda box: box != self._first_box)
        box = boxes[self._turn % len(boxes)]
        self._turn += 1
        # The box's own, and not to be sent on to a home.
        question = Packet(Op.NOOP, client=self._client, box=box, operation=READ | self._turn)
        self._asked = question
        with contextlib.suppress(OSError):
            self._socket.sendto(self._sealed(question, self._boxes[box]), self._boxes[box])

    def _hear_where_homes_are(self, packet: Packet, sender: Address) -> None:
        if self._asked is None or not self._is_reply(packet, self._asked, sender) or self._nodes[sender][0] != BOX:
            return
        for home in learn(self._moved, told(packet, self.homes) or {}):
            self._nodes.pop(self.homes[home], None)
            self.homes[home] = self._moved[home].host, self._moved[home].port
            self._nodes[self.homes[home]] = HOME, home

    def _hear(self, request: Packet, until: float, home: Address | None) -> Packet | None:
        """The reply, if it comes by then, and before the home that was asked is known to be elsewhere."""
        while (left := until - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                datagram, sender = self._socket.recvfrom(MAX_DATAGRAM + 1)
                packet = parse(datagram)
            except (TimeoutError, Malformed, ConnectionError):
                continue
            if packet.opcode == Op.NOOP | REPLY and request.opcode != Op.NOOP:
                self._hear_where_homes_are(packet, sender[:2])
                if home is not None and self.homes[request.home] != home:
                    return None
            elif self._is_reply(packet, request, sender[:2]) and packet.status != Status.BUSY:
                return packet
        return None

    def _sealed(self, request: Packet, to: Address) -> bytes:
        if self._seal is None or is_read(request):
            return request.emit()
        body = request.body(sealed=True)
        return body + self._seal.prove(body, self._nodes[to])

    def _is_reply(self, packet: Packet, request: Packet, sender: Address) -> bool:
        if sender not in self._nodes or not answers(packet, request):
            return False
        if packet.status == Status.PAD and packet.operand - len(request.body()) <= request.padding:
            return False
        if self._seal is None:
            return True
        if not packet.proof:
            # Anybody could have written it: it changes nothing, and no more is believed of it.
            return is_read(request)
        return self._seal.believes(packet.body(), packet.proof, self._nodes[sender])


def is_read(request: Packet) -> bool:
    """Whether it is answered without a proof."""
    return bool(request.operation & READ) and request.opcode not in (Op.SESSION, Op.NOOP)


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
