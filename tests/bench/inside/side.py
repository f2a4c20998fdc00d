"""Run a command as a job of several ranks and say, as one JSON line, how it went.

Usage: side.py RANKS COMMAND...  Standard library only; each rank gets THREADS threads (default 1), and rank 0's lines
their times.
"""

import json
import os
import re
import subprocess
import sys
import time

STEP = re.compile(r"Train Epoch: \d+ \[(\d+)/")


def main(ranks: int, command: list[str]) -> dict[str, object]:
    common = {**os.environ, "OMP_NUM_THREADS": os.environ.get("THREADS", "1"), "WORLD_SIZE": str(ranks)}
    common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29512", "USE_LIBUV": "0"}
    if ranks == 1:
        del common["WORLD_SIZE"]
    began = time.perf_counter()
    processes = [
        subprocess.Popen(
            command,
            env={**common, "RANK": str(rank)},
            stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
        )
        for rank in range(ranks)
    ]
    leader = processes[0].stdout
    assert leader
    times, lines = [], []
    for raw in leader:
        line = raw.decode().rstrip()
        lines.append(line)
        if STEP.match(line):
            times.append(time.perf_counter() - began)
    peaks, statuses, cpu = [], [], 0.0
    for process in processes:
        _, status, usage = os.wait4(process.pid, 0)
        statuses.append(os.waitstatus_to_exitcode(status))
        cpu += usage.ru_utime + usage.ru_stime
        peaks.append(usage.ru_maxrss // 1024)
    whole = time.perf_counter() - began
    return {
        "status": statuses,
        "whole_s": whole,
        "cpu_s": cpu,
        "steps": times,
        "peak_mib": peaks,
        "lines": lines,
    }


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), sys.argv[2:])))
