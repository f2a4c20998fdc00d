"""Sets up a bare machine: tools, container engine, images, Pulumi plugins.

Run as `python3 -m toolchain`, never imported by the program that Pulumi runs.

Python reads this file before our other files. It has syntax that every Python can read, so that an old Python prints a
sentence instead of a SyntaxError.
"""

import sys

PYTHON_NEEDED = (3, 11)

if sys.version_info < PYTHON_NEEDED:
    sys.stderr.write(
        "error: Python %s is too old; %s.%s or newer is needed\n"
        "  fix: install it; if it is not called python3, name it: make PYTHON=python%s.%s\n"
        % ((sys.version.split()[0],) + PYTHON_NEEDED + PYTHON_NEEDED)  # noqa: RUF005
    )
    sys.exit(1)
