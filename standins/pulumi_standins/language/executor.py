"""Runs one Pulumi program; started by the language host with the program's own interpreter.

Exit status: 0 done; 32 failed, and reported to the user; 1 failed, and the host must still report it.
"""

import argparse
import asyncio
import atexit
import contextlib
import gc
import inspect
import logging
import os
import queue
import runpy
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any

TOLD_THE_USER = 32
DEBUG = 0
"""engine.proto, LogSeverity"""


def parse() -> argparse.Namespace:
    """The command line from the language host."""
    parser = argparse.ArgumentParser()
    for name in ("project", "root_directory", "stack", "pwd", "monitor", "engine", "tracing", "organization"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--parallel", type=int)
    parser.add_argument("--dry_run", choices=("true", "false"), default="false")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs="*")
    return parser.parse_args()


def settings_of(arguments: argparse.Namespace, pulumi: Any) -> Any:
    """The SDK's Settings for `arguments`. `pulumi` is the program's own SDK, in any version."""
    wanted = {
        "monitor": arguments.monitor,
        "engine": arguments.engine,
        "project": arguments.project,
        "stack": arguments.stack,
        "parallel": arguments.parallel,
        "dry_run": arguments.dry_run == "true",
        "organization": arguments.organization,
        "root_directory": arguments.root_directory,
    }
    # An older SDK may not have an option.
    settings = pulumi.runtime.Settings
    known = inspect.signature(settings.__init__).parameters
    return settings(**{name: value for name, value in wanted.items() if name in known})


class Engine:
    """The engine's service, without waiting for debug messages: the SDK sends four per resource, one by one."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._debug: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def Log(self, request: Any) -> Any:  # noqa: N802
        """Send a message; a debug message is sent in the background."""
        if request.severity != DEBUG:
            return self._engine.Log(request)
        self._debug.put(request)
        return None

    def _send(self) -> None:
        while (request := self._debug.get()) is not None:
            # If the engine is gone, the program's other calls have ended, too.
            with contextlib.suppress(Exception):
                self._engine.Log(request)

    def drain(self) -> None:
        """Send the remaining messages."""
        self._debug.put(None)
        self._thread.join()


def own_frames(error: BaseException, program: str) -> str:
    """The traceback from the program's first frame on: our frames and runpy's do not help the program's author."""
    folder = program if os.path.isdir(program) else os.path.dirname(program)
    frame = error.__traceback__
    while frame is not None:
        file = os.path.abspath(frame.tb_frame.f_code.co_filename)
        if file == program or file == os.path.join(folder, "__main__.py"):
            break
        frame = frame.tb_next
    return "".join(traceback.format_exception(type(error), error, frame or error.__traceback__))


def execute(arguments: argparse.Namespace, pulumi: Any) -> int:
    """Run the program in its stack; returns the exit status. An error of the program is logged, not raised."""
    program = os.path.abspath(arguments.program)
    if os.path.isdir(program) and not os.path.isfile(os.path.join(program, "__main__.py")):
        pulumi.log.error(f"unable to find main python program `__main__.py` in `{program}`")
        return TOLD_THE_USER
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    # The SDK blocks one thread per running resource operation, and some for its own callbacks.
    executor = ThreadPoolExecutor(max_workers=max(arguments.parallel or 1, 1) * 4)
    loop.set_default_executor(executor)
    # A failed program leaves futures of its graph unawaited; asyncio's warnings about them do not help.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    try:
        loop.run_until_complete(
            pulumi.runtime.run_in_stack(lambda: runpy.run_path(arguments.program, run_name="__main__"))
        )
        return 0
    except pulumi.RunError as error:
        pulumi.log.error(str(error))
        return 1
    except Exception as error:
        pulumi.log.error("Program failed with an unhandled exception:\n" + own_frames(error, program))
        return TOLD_THE_USER
    finally:
        executor.shutdown(wait=True)
        loop.close()


def leave(status: int) -> None:
    """End like an interpreter, without destroying thousands of modules and classes: that takes 0.2 s."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main() -> None:
    """Run the program that the command line names, and end the process with its status."""
    # The program must not import from the folder of this file.
    sys.path.pop(0)
    # Programs are short, and most objects live until the end: garbage collection would only cost time.
    gc.set_threshold(50_000, 20, 20)
    try:
        import pulumi
        import pulumi.runtime
    except ImportError:
        traceback.print_exc()
        print(
            f"The Pulumi SDK is not installed for {sys.executable}: "
            "add 'pulumi' to the project's dependencies and run 'pulumi install'.",
            file=sys.stderr,
        )
        sys.exit(1)
    arguments = parse()
    gc.freeze()
    pulumi.runtime.set_all_config(
        pulumi.runtime.get_config_env(), pulumi.runtime.get_config_secret_keys_env()
    )
    settings = settings_of(arguments, pulumi)
    engine = settings.engine = Engine(settings.engine)
    pulumi.runtime.configure(settings)
    sys.argv = [arguments.program, *arguments.arguments]
    if arguments.pwd:
        os.chdir(arguments.pwd)
    status = execute(arguments, pulumi)
    engine.drain()
    leave(status)


if __name__ == "__main__":
    main()
