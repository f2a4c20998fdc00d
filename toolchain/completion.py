"""Completion of the commands in bash: words of the command line, stacks and runs that are there."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from toolchain.options import Offer, Option
from toolchain.paths import MODELS, STACKS

# bash looks for stacks and runs when it is asked, so that a new one is known at once.
SCRIPT = """\
_trainstack_stacks() {{
  local file
  for file in {stacks}/Pulumi.*.yaml; do
    file="${{file##*/Pulumi.}}"
    [ "$file" = "*.yaml" ] || echo "${{file%.yaml}}"
  done
}}
_trainstack_runs() {{
  local folder
  for folder in {models}/*/runs/*/ {models}/*/sweep/runs/*/; do
    folder="${{folder%/}}"
    [ "${{folder##*/}}" = "*" ] || echo "${{folder##*/}}"
  done
}}
_trainstack() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" offered=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    offered={commands}
  else
    case "${{COMP_WORDS[1]}} $before" in
{cases}
    esac
  fi
  mapfile -t COMPREPLY < <(compgen -W "$offered" -- "$word")
}}
complete -o bashdefault -o default -F _trainstack trainstack"""
FOUND = {Offer.STACKS: "$(_trainstack_stacks)", Offer.RUNS: "$(_trainstack_runs)"}


def script(commands: Mapping[str, Sequence[Option]]) -> str:
    """Lines for bash's `source`.

    Parameters:
        commands: the options of each command, by its name.
    """
    return SCRIPT.format(
        stacks=shlex.quote(str(STACKS)),
        models=shlex.quote(str(MODELS)),
        commands=shlex.quote(" ".join(commands)),
        cases="\n".join(line for name, options in commands.items() for line in _cases(name, options)),
    )


def _cases(name: str, options: Sequence[Option]) -> list[str]:
    """After an option its values; elsewhere in the command its options and operands."""
    valued = [each for each in options if not each.is_operand and not each.is_switch]
    lines = [f'      {shlex.quote(f"{name} {each.flag}")}) offered="{_values(each)}" ;;' for each in valued]
    words = [each.flag for each in options if not each.is_operand] + ["--help"]
    words += [_values(each) for each in options if each.is_operand and _values(each)]
    return [*lines, f'      {shlex.quote(f"{name} ")}*) offered="{" ".join(words)}" ;;']


def _values(option: Option) -> str:
    return " ".join(filter(None, option.choices)) or FOUND.get(option.offer, "")
