"""How long an all-reduce takes between processes of one machine, over gloo on the loopback interface.

Runs inside the trainer image, where torch is, as text behind `python3 -c`: standard library and torch alone, nothing of
ours. Usage: all_reduce_probe.py RANKS...; prints one JSON list of {"ranks", "bytes", "seconds"}: of several tries the
fastest, as whatever else the machine does can only slow one.

Every rank has one thread. float32, summed, in place: the call that the trainer makes once a step.
"""

import json
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NoReturn

SIZES = [4 << 10, 64 << 10, 512 << 10, 2 << 20, 8 << 20]
WARM_UPS = 3
TRIES = 9
# Of one try: long enough for a clock, short enough for a probe.
TRY_S = 0.04
TIMEOUT_S = 60


def rank(number: int, ranks: int, folder: str) -> NoReturn:
    """One process. Rank 0 writes its figures into `folder`; all of them call as often, as rank 0 says."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    dist.init_process_group(
        "gloo", init_method=store, rank=number, world_size=ranks, timeout=timedelta(seconds=TIMEOUT_S)
    )
    found = []
    for size in SIZES:
        values = torch.zeros(size // 4)
        begun = time.perf_counter()
        for _ in range(WARM_UPS):
            dist.all_reduce(values)
        once = (time.perf_counter() - begun) / WARM_UPS
        calls = torch.tensor([max(1, int(TRY_S / once))])
        dist.broadcast(calls, src=0)
        taken = []
        for _ in range(TRIES):
            begun = time.perf_counter()
            for _ in range(int(calls)):
                dist.all_reduce(values)
            taken.append((time.perf_counter() - begun) / int(calls))
        found.append({"ranks": ranks, "bytes": size, "seconds": min(taken)})
    if number == 0:
        (Path(folder) / "found").write_text(json.dumps(found))
    # As the trainer ends: gloo's destructor may hang.
    os._exit(0)


def measure(ranks: int) -> list[dict[str, float]]:
    """The figures of one number of ranks, a process each. Raises SystemExit where one of them fails."""
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for number in range(ranks):
            child = os.fork()
            if child == 0:
                try:
                    rank(number, ranks, folder)
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
            children.append(child)
        statuses = [os.waitpid(child, 0)[1] for child in children]
        if any(statuses):
            sys.exit(f"an all-reduce between {ranks} processes failed")
        found: list[dict[str, float]] = json.loads((Path(folder) / "found").read_text())
        return found


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    print(json.dumps([each for ranks in sys.argv[1:] for each in measure(int(ranks))]))
