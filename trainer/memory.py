"""Memory that a step frees stays with the process, for the next step.

glibc gives blocks of more than 32 MiB back to the kernel when they are freed, and the kernel clears them page by page
when the next step asks for them again. The first activations of `lenet` are that large from 730 images on.
"""

from __future__ import annotations

import ctypes

# Of glibc's <malloc.h>; its manual explains them under "Malloc Tunable Parameters".
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
BYTES = 1 << 30


def keep() -> bool:
    """Tell the C library to keep freed blocks of up to BYTES; returns whether it will. Only some glibcs know how.

    The order matters: a glibc that takes the second setting without the first would map every block anew.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        return False
    return all(libc.mallopt(parameter, BYTES) for parameter in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD))
