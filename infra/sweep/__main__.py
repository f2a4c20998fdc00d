"""`python -m infra.sweep STACK`: what the stack file asks `make sweep` for, as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from infra import dataset, paths
from infra.command_line import errors_as_text
from infra.config import ConfigError, from_file
from infra.sweep import search


@errors_as_text(ConfigError, dataset.DataError)
def main(arguments: list[str], stacks: Path = paths.ROOT / "stacks") -> int:
    """Print the search; the exit status."""
    top = argparse.ArgumentParser(prog="python -m infra.sweep", description=__doc__)
    top.add_argument("stack")
    given = top.parse_args(arguments)
    stack = from_file(stacks / f"Pulumi.{given.stack}.yaml")
    print(json.dumps(search.search(stack)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
