"""TensorBoard event files of scalars, written without TensorBoard: Debian's torch comes without it.

A file is a row of TFRecords (length, its checksum, payload, its checksum), each payload an `Event` message in
protobuf's wire format. The fields used: Event.wall_time=1 (double), .step=2 (int64), .file_version=3 (string),
.summary=5; Summary.value=1; Value.tag=1 (string), .simple_value=2 (float).
"""

from __future__ import annotations

import socket
import struct
import time
from pathlib import Path

CASTAGNOLI = 0x82F63B78  # CRC-32C's polynomial, bits reversed
MASK = 0xA282EAD8  # TFRecord rotates a checksum and adds this, lest a checksum be taken of a checksum


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (CASTAGNOLI if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = _table()


def checksum(data: bytes) -> int:
    """TFRecord's masked CRC-32C of `data`."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + MASK) & 0xFFFFFFFF


def record(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + struct.pack("<I", checksum(length)) + payload + struct.pack("<I", checksum(payload))


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def event(wall_time: float, step: int, scalars: dict[str, float]) -> bytes:
    values = b"".join(
        field(1, field(1, tag.encode()) + b"\x15" + struct.pack("<f", value))
        for tag, value in scalars.items()
    )
    return b"\x09" + struct.pack("<d", wall_time) + b"\x10" + varint(step) + field(5, values)


class EventFile:
    """Appends scalars to a new event file in `folder`."""

    def __init__(self, folder: Path) -> None:
        now = time.time()
        self.file = (folder / f"events.out.tfevents.{now:.0f}.{socket.gethostname()}").open("ab")
        self.file.write(record(b"\x09" + struct.pack("<d", now) + field(3, b"brain.Event:2")))

    def add(self, step: int, scalars: dict[str, float]) -> None:
        self.file.write(record(event(time.time(), step, scalars)))
        self.file.flush()
