"""Fields of a protocol buffer, read without its description: numbers and the bytes of nested messages.

Encoding: protobuf.dev/programming-guides/encoding. Lengths are checked against what is there, so a broken file ends in
one line and never in a long loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from slipstick.common.errors import InputError

Field = tuple[int, int | memoryview]
"""Number of the field, and its value: whole numbers as unsigned 64 bits, all else as bytes."""


def fields(message: memoryview, source: str) -> Iterator[Field]:
    """The fields of a message in file order.

    Raises InputError where the bytes are no message.
    """
    place, end = 0, len(message)
    while place < end:
        tag, place = _number(message, place, source)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, place = _number(message, place, source)
            yield number, value
            continue
        if wire == 2:
            length, place = _number(message, place, source)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise InputError(f"{source}: not a protocol buffer (wire type {wire})")
        if length > end - place:
            raise InputError(f"{source}: a field of {length} bytes, {end - place} are left: cut, or no protocol buffer")
        yield number, message[place : place + length]
        place += length


def _number(message: memoryview, place: int, source: str) -> tuple[int, int]:
    value = shift = 0
    while place < len(message) and shift < 70:
        byte = message[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
    raise InputError(f"{source}: a number that does not end: cut, or no protocol buffer")


def text_of(value: int | memoryview) -> str:
    """A field of text; broken letters are replaced."""
    return str(value) if isinstance(value, int) else bytes(value).decode("utf-8", "replace")


def signed(value: int) -> int:
    """A number that stands for a signed one of 64 bits."""
    return value - (1 << 64) if value >= 1 << 63 else value
