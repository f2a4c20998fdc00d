"""IDX, the file format of MNIST and its relatives: reading, writing and checksums. Standard library only."""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import re
import stat
import struct
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

UNSIGNED_BYTE = 0x08
TRAIN = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TEST = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
FILES = (*TRAIN, *TEST)
MOST_NAMES = 5  # how many files a message lists
# `trainer inspect` writes samples.png.
NO_DATA = re.compile(r"\.|lost\+found$|README|LICENSE|.*\.md$|samples\.png$")

# MD5 of the unpacked bytes. The .gz wrappers of one file differ from mirror to mirror.
CHECKSUMS = {
    "mnist": {
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    },
    "fashion-mnist": {
        "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
        "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
        "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
    },
}
# KMNIST has published checksums of its .gz files only.
PACKED_CHECKSUMS = {
    "kmnist": {
        "train-images-idx3-ubyte": "bdb82020997e1d708af4cf47b453dcf7",
        "train-labels-idx1-ubyte": "e144d726b3acfaa3e44228e80efcd344",
        "t10k-images-idx3-ubyte": "5c965bf0a639b31b8f53240b1b52f4d7",
        "t10k-labels-idx1-ubyte": "7320c461ea6c1c855c0b718fb2a4b134",
    },
}


class DataError(Exception):
    """Data is missing or differs from the published data; the message names the file and the fix."""


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Raises DataError for every OSError inside."""
    try:
        yield
    except OSError as error:
        is_closed = isinstance(error, PermissionError)
        fix = (
            f"let user {os.getuid()} or group {os.getgid()} read it"
            if is_closed
            else "check its disk or mount"
        )
        raise DataError(
            f"{shown(error.filename or path)} cannot be read ({error.strerror or error}); {fix}"
        ) from error


def shown(name: str | Path) -> str:
    """A file's name for any terminal: bytes that are not UTF-8 become `\\xff`."""
    return os.fsencode(name).decode(errors="backslashreplace")


def find(folder: Path, name: str) -> Path | None:
    """Path of file `name` in `folder`, plain or with `.gz`. Raises DataError if the user may not look there."""
    with readable(folder):
        return next((path for path in (folder / name, folder / f"{name}.gz") if is_file(path)), None)


def is_file(path: Path) -> bool:
    """Whether the file exists. Raises OSError if the user may not look there."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def locate(folder: Path, name: str) -> Path:
    """Like `find`, but a missing file raises DataError."""
    if path := find(folder, name):
        return path
    there = listed(strangers(folder))
    raise DataError(
        f"{shown(folder)} has no {name} or {name}.gz{f', but it has {there}' if there else ''}; "
        "put the four IDX files into this folder"
    )


def strangers(folder: Path, known: Collection[str] = ()) -> list[str]:
    """The files of `folder`, except IDX files, the names `known`, and files without data. Raises DataError."""
    ours = {*known, *FILES, *(f"{name}.gz" for name in FILES)}
    try:
        with readable(folder):
            names = os.listdir(folder)
    except DataError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return []
        raise
    return sorted(shown(name) for name in names if name not in ours and not NO_DATA.match(name))


def listed(names: list[str]) -> str:
    """The first names of a list, and the number of others."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def present(folder: Path) -> set[str]:
    """Which of the four files are in `folder`."""
    return {name for name in FILES if find(folder, name)}


def complete(folder: Path) -> bool:
    """Whether all four files are in `folder`."""
    return present(folder) == set(FILES)


def unpack(path: Path) -> bytes:
    """The plain bytes of an IDX file. Raises DataError for a damaged .gz, or an unreadable file."""
    with readable(path):
        raw = path.read_bytes()
    if path.suffix != ".gz":
        return raw
    try:
        return gzip.decompress(raw)
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(f"{path} is not a whole .gz file ({error}); fetch it again") from error


def parse(raw: bytes, name: str) -> tuple[tuple[int, ...], memoryview]:
    """Shape and values of an IDX file of unsigned bytes. Raises DataError."""
    dimensions = raw[3] if len(raw) > 3 else 0
    if raw[:3] != bytes([0, 0, UNSIGNED_BYTE]) or len(raw) < 4 + 4 * dimensions:
        raise DataError(f"{name} is not an IDX file of unsigned bytes")
    shape = struct.unpack_from(f">{dimensions}I", raw, 4)
    values = memoryview(raw)[4 + 4 * dimensions :]
    if len(values) != math.prod(shape):
        raise DataError(
            f"{name} holds {len(values)} values, its header says {math.prod(shape)}; fetch the file again"
        )
    return shape, values


def pack(shape: tuple[int, ...], values: bytes) -> bytes:
    """The bytes of an IDX file with these unsigned values."""
    return bytes([0, 0, UNSIGNED_BYTE, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + values


def verify(folder: Path, name: str, dataset: str) -> bytes:
    """Plain bytes of file `name`. Raises DataError unless they are the published bytes of `dataset`."""
    path, packed = locate(folder, name), folder / f"{name}.gz"
    if dataset in PACKED_CHECKSUMS:
        if not is_file(packed):
            raise DataError(
                f"{path}: only the .gz files of {dataset} have published checksums; keep them packed"
            )
        path, raw = packed, unpack(packed)
        expected, found = PACKED_CHECKSUMS[dataset][name], _md5(packed.read_bytes())
    else:
        raw = unpack(path)
        if dataset not in CHECKSUMS:
            return raw
        expected, found = CHECKSUMS[dataset][name], _md5(raw)
    if found != expected:
        raise DataError(f"{path}: expected md5 {expected}, found {found}; fetch the file again")
    return raw


def owners(folder: Path, name: str) -> set[str]:
    """The published data sets whose file `name` is the same as the one in `folder`. Raises DataError."""
    plain, packed = _md5(unpack(locate(folder, name))), folder / f"{name}.gz"
    found = {dataset for dataset, sums in CHECKSUMS.items() if sums[name] == plain}
    if is_file(packed):
        md5 = _md5(packed.read_bytes())
        found |= {dataset for dataset, sums in PACKED_CHECKSUMS.items() if sums[name] == md5}
    return found


def of_another(folder: Path, dataset: str) -> bool:
    """Whether `folder` has the labels of another published data set than `dataset`; only these small files are read.

    False if no label file is known: each is damaged, missing or not published.
    """
    for name in (TRAIN[1], TEST[1]):
        with suppress(DataError):
            if known := owners(folder, name):
                return dataset not in known
    return False


def recognize(folder: Path) -> str:
    """The published data set that the four files in `folder` claim to be; the first known checksum decides.

    The smallest file comes first, so of published files only labels are read. Nothing else is verified. "mnist" if no
    checksum is known. Raises DataError for a missing file.
    """
    with readable(folder):
        sizes = {name: locate(folder, name).stat().st_size for name in FILES}
    for name in sorted(sizes, key=sizes.__getitem__):
        if known := owners(folder, name):
            return min(known)
    return "mnist"


def identify(folder: Path) -> str:
    """Name of the published data set in `folder`, all four files verified. Raises DataError for a file that differs."""
    dataset = recognize(folder)
    for name in FILES:
        verify(folder, name, dataset)
    return dataset


def _md5(raw: bytes) -> str:
    return hashlib.md5(raw, usedforsecurity=False).hexdigest()
