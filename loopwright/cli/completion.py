"""The verb completion: what a shell needs to complete verbs, options, kernels and cores."""

import click
from click.shell_completion import get_completion_class

from loopwright.cli import options
from loopwright.errors import unknown

# Where each shell looks for completions of a user, and how it takes one up at once.
_INSTALL = {
    "bash": "mkdir -p ~/.local/share/bash-completion/completions && loopwright completion bash "
    "> ~/.local/share/bash-completion/completions/loopwright",
    "zsh": "mkdir -p ~/.zfunc && loopwright completion zsh > ~/.zfunc/_loopwright "
    "# with fpath+=~/.zfunc before compinit in ~/.zshrc",
    "fish": "mkdir -p ~/.config/fish/completions && loopwright completion fish "
    "> ~/.config/fish/completions/loopwright.fish",
}


@click.command()
@click.argument("shell", metavar="bash|zsh|fish", shell_complete=options.complete_from(_INSTALL))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script by which a shell completes the command line.

    Its first lines say how to install it for good.

    \b
    loopwright completion bash
    eval "$(loopwright completion bash)"     for this shell alone
    """
    kind = get_completion_class(shell) if shell in _INSTALL else None
    if kind is None:
        raise unknown("shell", shell, _INSTALL)
    made = kind(context.find_root().command, {}, "loopwright", "_LOOPWRIGHT_COMPLETE")
    # zsh wants its #compdef first.
    lines = (made.source_template % made.source_vars()).strip().splitlines()
    note = ["# To install it:", f"# {_INSTALL[shell]}"]
    first = lines[:1] if lines[0].startswith("#compdef") else []
    print("\n".join([*first, *note, *lines[len(first) :]]))


VERBS = (completion,)
