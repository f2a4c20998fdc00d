"""`python -m infra.sweep STACK`: what the stack file asks `make sweep` for, as JSON.

With --katib an Experiment of Katib's for the same search, as YAML.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import yaml

from infra import dataset, paths
from infra.command_line import errors_as_text
from infra.config import ConfigError, from_file
from infra.sweep import katib, search


@errors_as_text(ConfigError, dataset.DataError)
def main(arguments: list[str], stacks: Path = paths.ROOT / "stacks") -> int:
    """Print the search; the exit status."""
    top = argparse.ArgumentParser(prog="python -m infra.sweep", description=__doc__)
    top.add_argument("stack")
    top.add_argument("--katib", action="store_true", help="print Katib's Experiment")
    given = top.parse_args(arguments)
    stack = from_file(stacks / f"Pulumi.{given.stack}.yaml")
    if given.katib:
        print(yaml.safe_dump(katib.experiment(stack), sort_keys=False, width=1000), end="")
    else:
        print(json.dumps(search.search(stack)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
