"""``kvtheory completion``: a script that lets a shell complete commands, options and names."""

from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import Positional, arg


@dataclass(frozen=True, kw_only=True)
class Options:
    """Print a script that completes commands, options, files, and the names of policies, routers
    and generators with their parameters.

    Keep it in a file, because it takes a second to make; do so again after an upgrade.

    bash, with a line "source ~/.kvtheory.bash" in ~/.bashrc:

        kvtheory completion bash > ~/.kvtheory.bash

    zsh, with "fpath+=~/.zfunc" in ~/.zshrc, above the line that runs compinit:

        mkdir -p ~/.zfunc && kvtheory completion zsh > ~/.zfunc/_kvtheory

    fish:

        kvtheory completion fish > ~/.config/fish/completions/kvtheory.fish

    Example: kvtheory completion bash
    """

    shell: Annotated[Literal["bash", "zsh", "fish"], Positional, arg(metavar="bash|zsh|fish")]
    """The shell that is to complete."""


def run(options: Options) -> int:
    """Print the script."""
    from kvtheory.commands import complete_bash, complete_fish, complete_zsh
    from kvtheory.commands.words import vocabulary

    shells = {"bash": complete_bash, "zsh": complete_zsh, "fish": complete_fish}
    print(shells[options.shell].script(vocabulary()), end="")
    return 0
