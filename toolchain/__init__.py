"""What a bare machine lacks: tools, container engine, images, Pulumi plugins.

Invoked as `python3 -m toolchain`, never imported by the program that Pulumi runs.

Python reads this file before any other of ours: in the syntax of any Python, so that an older one than is needed gets a
sentence and no SyntaxError.
"""

import sys

PYTHON_NEEDED = (3, 11)

if sys.version_info < PYTHON_NEEDED:
    sys.stderr.write(
        "error: Python %s is too old; %s.%s or newer is needed\n"
        "  fix: install it, and name it where it is not python3: make PYTHON=python%s.%s\n"
        % ((sys.version.split()[0],) + PYTHON_NEEDED + PYTHON_NEEDED)  # noqa: RUF005
    )
    sys.exit(1)
