"""The first command on machines that differ from the one in the README: an old Python, and no Linux."""

from __future__ import annotations

import ast
import json

import pytest

from tests.unit.toolchain.conftest import ROOT, Machine
from tests.unit.toolchain.tools.test_ready_made_tools import PREPARE, UNREACHABLE, connected
from toolchain import PYTHON_NEEDED

__all__ = ["connected"]
ENTRY = "toolchain/__init__.py"
OLD = [(3, minor) for minor in range(7, PYTHON_NEEDED[1])]

# Read by Python before the program. What Linux alone has is away, for the program and for each Python that it starts.
AS_ON_MACOS = """
import ctypes, os, sys, sysconfig
sysconfig.get_config_vars()  # those of this Python are read from a file that is named by the platform
sys.platform = "darwin"
proxies = sys.modules["_scproxy"] = type(sys)("_scproxy")  # its own module, which urllib asks there
proxies._get_proxies = proxies._get_proxy_settings = dict
LINUX = ("/proc", "/sys", "/etc/debian_version")
for name in ("sched_getaffinity", "sched_setaffinity", "memfd_create", "pidfd_open", "copy_file_range"):
    delattr(os, name)

def ensure_there(path):
    if isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path).startswith(LINUX):
        raise FileNotFoundError(2, "No such file or directory", os.fsdecode(path))

def looked_up(event, arguments):
    if event in ("open", "os.listdir", "os.scandir"):
        ensure_there(arguments[0])

def wrapped(function):
    def look(path, *arguments, **options):
        ensure_there(path)
        return function(path, *arguments, **options)
    return look

def attribute(library, name, found=ctypes.CDLL.__getattr__):
    if name == "prctl":
        raise AttributeError("dlsym(prctl): symbol not found")
    return found(library, name)

sys.addaudithook(looked_up)
for name in ("stat", "lstat", "readlink", "access"):
    setattr(os, name, wrapped(getattr(os, name)))
ctypes.CDLL.__getattr__ = attribute
"""
# Verb -> more arguments, and status. Nothing is up; no verb may need more than is here.
VERBS: dict[str, tuple[list[str], int]] = {
    "up": (["--stack", "nonsense"], 1),
    "down": ([], 0),
    "status": ([], 2),
    "env": ([], 0),
    "runs": ([], 0),
    "models": ([], 0),
    "use": (["no-such-run"], 1),
    "compare": (["one", "two"], 1),
    "drift": ([], 2),
    "clean": ([], 0),
}
# Prints each verb whose help is shown.
EACH_HELP = """
import contextlib, io
from toolchain import __main__
choices = next(each.choices for each in __main__.parser()._actions if each.dest == "verb")
for verb in choices:
    with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(SystemExit):
        __main__.parser().parse_args([verb, "--help"])
    assert verb in shown.getvalue(), shown.getvalue()
    print(verb)
"""


@pytest.fixture
def mac(connected: Machine) -> Machine:
    """As a Mac with Docker Desktop, Pulumi, kind and kubectl."""
    folder = connected.home / "as-on-macos"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(AS_ON_MACOS)
    connected.variables["PYTHONPATH"] = str(folder)
    connected.program("ps", "")
    connected.program("lsof", "")
    return connected


@pytest.mark.parametrize("version", OLD, ids=str)
def test_the_entry_is_read_by_old_pythons(version: tuple[int, int]) -> None:
    ast.parse((ROOT / ENTRY).read_text(), feature_version=version)


def test_an_old_python_gets_a_sentence_before_anything_of_ours_is_read(machine: Machine) -> None:
    code = "import runpy, sys; sys.version_info = (3, 9, 2); sys.version = '3.9.2 (default)'"
    for file in (machine.root / "toolchain").glob("*.py"):
        if str(file.relative_to(machine.root)) != ENTRY:
            file.write_text("a SyntaxError of an old Python")
    done = machine.python(f"{code}; runpy.run_module('toolchain', run_name='__main__')")
    assert done.returncode == 1
    assert done.stderr == (
        "error: Python 3.9.2 is too old; 3.11 or newer is needed\n"
        "  fix: install it; if it is not called python3, name it: make PYTHON=python3.11\n"
    )


def test_what_stands_for_macos_has_no_linux(mac: Machine) -> None:
    """Else the tests below show nothing."""
    for code in (
        "open('/proc/self/stat')",
        "import os; os.stat('/sys')",
        "from pathlib import Path; list(Path('/proc').iterdir())",
        "import os; os.sched_getaffinity(0)",
        "import ctypes; ctypes.CDLL(None).prctl",
    ):
        done = mac.python(code)
        assert done.returncode == 1, code
        assert "No such file" in done.stderr or "AttributeError" in done.stderr, done.stderr


def test_set_up_without_linux(mac: Machine) -> None:
    done = mac.python(PREPARE)
    assert done.returncode == 0, done.stderr
    assert mac.called("go") == []


def test_without_linux_images_are_pulled_or_it_says_so_before_any_work(mac: Machine) -> None:
    mac.program("docker", UNREACHABLE)
    done = mac.python(PREPARE)
    assert done.returncode == 1
    assert "only Linux can build these images" in done.stderr
    assert mac.called("go") == []
    assert mac.called("uv") == []


def test_without_linux_an_engine_is_the_users_to_start(mac: Machine) -> None:
    mac.program("docker", "exit 1")
    done = mac.toolchain("up")
    assert done.returncode == 1
    assert "fix: start Docker Desktop" in done.stderr
    assert "systemctl" not in done.stderr


def test_every_other_verb_is_known_without_linux(mac: Machine) -> None:
    """They start pytest, Git or the program of the virtual environment right away."""
    done = mac.python(EACH_HELP)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) > VERBS.keys()


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_without_linux(mac: Machine, verb: str) -> None:
    more, status = VERBS[verb]
    done = mac.toolchain(verb, *more)
    assert done.returncode == status, done.stdout + done.stderr
    for word in ("Traceback", "unexpected error", "/proc", "/sys"):
        assert word not in done.stdout + done.stderr


def test_doctor_without_linux(mac: Machine) -> None:
    done = mac.toolchain("doctor", "--json")
    found = {each["what"]: each for each in json.loads(done.stdout)["checks"]}
    assert found["cgroups"]["health"] == "ok", found["cgroups"]
    assert "Traceback" not in done.stderr
