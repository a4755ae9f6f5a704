"""What an operation would do to an item that a try has read: the rules of docs/wire.md for outcomes that change nothing."""

from .wire import MAX_VALUE, Op, Packet, Status

TRIED = frozenset({Op.ADD, Op.CAS, Op.DELETE, Op.COND_PUT, Op.MIN, Op.MAX, Op.OR, Op.APPEND})
"""Operations with some outcome that changes nothing."""


def unchanged(request: Packet, item: Packet) -> tuple[Status, int] | None:
    """Status and number of `request` on what the reply `item` found, if they leave it as it is; `None`: it would change, or may."""
    if item.status not in (Status.OK, Status.MISS):
        return None
    found = item.status == Status.OK
    match Op(request.opcode):
        case Op.ADD:
            return (Status.EXISTS, 0) if found else None
        case Op.CAS | Op.DELETE | Op.APPEND if not found:
            return Status.MISS, 0
        case Op.CAS if request.version != item.version:
            return Status.EXISTS, 0
        case Op.DELETE if request.version not in (0, item.version):
            return Status.EXISTS, 0
        case Op.APPEND if len(item.value) + len(request.value) > min(request.operand or MAX_VALUE, MAX_VALUE):
            return Status.NO_ROOM, 0
        case Op.COND_PUT | Op.MIN | Op.MAX | Op.OR if found:
            return _combined(Op(request.opcode), number(item.value), request.operand)
        case _:
            return None


def _combined(op: Op, old: int | None, operand: int) -> tuple[Status, int] | None:
    if old is None:
        return Status.NOT_NUMBER, 0
    new = {Op.MIN: min(old, operand), Op.OR: old | operand}.get(op, max(old, operand))
    if new != old:
        return None
    return (Status.NOT_STORED if op == Op.COND_PUT else Status.OK), old


def number(value: bytes) -> int | None:
    """A number as items hold it: 1 to 20 decimal digits, below 2^64."""
    if not 1 <= len(value) <= 20 or not all(digit in b"0123456789" for digit in value):
        return None
    return int(value) if int(value) < 1 << 64 else None
