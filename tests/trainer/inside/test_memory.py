import subprocess
import sys

ALLOCATE = """
import ctypes, sys
from trainer import memory
if sys.argv[1] == "keep":
    assert memory.keep()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
block = libc.malloc(ctypes.c_size_t(100 << 20))
ctypes.memset(block, 1, 100 << 20)
filled = resident()
libc.free(block)
print(filled - resident())
"""


def given_back(how: str) -> int:
    """Bytes that the process returns to the kernel when it frees 100 MiB."""
    done = subprocess.run([sys.executable, "-c", ALLOCATE, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_a_freed_block_stays_with_the_process() -> None:
    assert given_back("plain") > 90 << 20
    assert given_back("keep") < 10 << 20
