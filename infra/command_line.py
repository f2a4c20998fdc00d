"""What the commands `python -m infra.…` have in common."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec

P = ParamSpec("P")


def errors_as_text(*expected: type[Exception]) -> Callable[[Callable[P, int]], Callable[P, int]]:
    """A decorator of a command's `main`, whose result is the exit status.

    Where one of the `expected` errors ends it, the error's text goes to standard error and the status is 1: these
    errors say what to change, and need no traceback.
    """

    def decorated(main: Callable[P, int]) -> Callable[P, int]:
        @functools.wraps(main)
        def reporting(*args: P.args, **kwargs: P.kwargs) -> int:
            try:
                return main(*args, **kwargs)
            except expected as error:
                print(error, file=sys.stderr)
                return 1

        return reporting

    return decorated
