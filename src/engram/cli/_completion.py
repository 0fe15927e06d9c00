"""``engram completion``: the script for a shell, which asks engram itself what may come next."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

SCRIPTS = {
    "bash": """\
_engram() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do
        [[ -n $word ]] && COMPREPLY+=("$(printf %q "$word")")
    done < <(engram --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -o bashdefault -F _engram engram
""",
    "zsh": """\
#compdef engram
_engram() {
    local -a found
    found=("${(@f)$(engram --complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    found=(${found:#})
    if (( $#found )); then compadd -a found; else _files; fi
}
compdef _engram engram
""",
    "fish": """\
function __engram_complete
    set -l words (commandline -opc) (commandline -ct)
    engram --complete $words[2..] 2>/dev/null
end
complete -c engram -a '(__engram_complete)'
""",
}


@dataclass(frozen=True)
class Completion:
    """Print the script that lets a shell complete commands, options, models, tasks and runs with the Tab key.

    Examples:
        engram completion bash > ~/.local/share/bash-completion/completions/engram
        engram completion zsh > ~/.zfunc/_engram        (with ~/.zfunc in fpath)
        engram completion fish > ~/.config/fish/completions/engram.fish
    """

    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(name="SHELL")] = "bash"
    """The shell."""

    def run(self) -> None:
        print(SCRIPTS[self.shell], end="")
