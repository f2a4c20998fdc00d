"""How many numbers a run's checkpoint holds, without torch: torch's file is an archive with a pickle of the shapes."""

from __future__ import annotations

import math
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHECKPOINT = "checkpoint.pt"


class _Inert:
    """Stands for whatever a pickle names: nothing is imported, nothing is called."""

    def __init__(self, *_: object) -> None:
        pass

    def __setitem__(self, _key: object, _value: object) -> None:
        pass


class _Tensor(_Inert):
    """Of torch._utils._rebuild_tensor_v2, which is called with storage, offset, shape and strides."""

    def __init__(self, *given: Any) -> None:
        self.numbers = math.prod(given[2]) if len(given) > 2 else 0


class _Shapes(pickle.Unpickler):
    """Reads shapes; the storages with the numbers themselves stay where they are."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        return _Tensor if name == "_rebuild_tensor_v2" else _Inert

    def persistent_load(self, _: Any) -> Any:
        return None


def sizes(folder: Path) -> tuple[int, int] | None:
    """Numbers in all parameters and in all buffers of the run in `folder`; None where its checkpoint does not tell.

    The checkpoint has them as the trainer exchanges them: parameters in one tensor, tied ones once, and all buffers,
    with those that a model file leaves out.
    """
    try:
        with zipfile.ZipFile(folder / CHECKPOINT) as archive:
            (name,) = [each for each in archive.namelist() if each.endswith("/data.pkl")]
            with archive.open(name) as file:
                state = _Shapes(file).load()
        return sum(_numbers(state["model"])), sum(_numbers(state.get("buffers", [])))
    except Exception:  # whatever a torn or foreign file makes of it: it raises a dozen types
        return None


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, _Tensor):
        yield value.numbers
    elif isinstance(value, dict):
        for each in value.values():
            yield from _numbers(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _numbers(each)
    else:
        raise ValueError("no tensor")
