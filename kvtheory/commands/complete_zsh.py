"""The completion script for zsh."""

from kvtheory.commands.option import Option
from kvtheory.commands.words import FILES, FOLDERS, Vocabulary


def script(words: Vocabulary) -> str:
    """The script, with the words in it."""
    return _SCRIPT.format(
        first=_described(words.first_words(), "    "),
        second="\n".join(
            f"    {first})\n      commands=(\n{_described(second, '        ')}\n      ) ;;"
            for first, second in words.groups().items()
        ),
        commands="\n".join(
            f"    {_quoted(name)}) _arguments -S -s {_arguments(options)} ;;"
            for name, options in words.options.items()
        ),
        names="\n".join(
            f"    {_quoted(kind)}) names=({' '.join(names)}) ;;"
            for kind, names in words.names.items()
        ),
        parameters="\n".join(
            f"    {_quoted(f'{kind} {name}')}) names=({' '.join(parameters)}) ;;"
            for kind, names in words.names.items()
            for name, parameters in names.items()
            if parameters
        ),
        files="|".join(map(_quoted, FILES)),
        folders="|".join(map(_quoted, FOLDERS)),
    )


def _described(words: dict[str, str], indent: str) -> str:
    return "\n".join(indent + _quoted(f"{word}:{what}") for word, what in words.items())


def _arguments(options: list[Option]) -> str:
    told = [_quoted("(- *)--help[show the help]")]
    for place, option in enumerate((o for o in options if not o.names), start=1):
        told.append(_quoted(f"{place}:{_value(option)}"))
    for option in options:
        about = option.about.replace("[", "(").replace("]", ")").replace(":", "\\:")
        for name in option.names:
            told.append(_quoted(f"{name}[{about}]{_values(option)}"))
    return " ".join(told)


def _values(option: Option) -> str:
    if not option.value:
        return ""
    return f":*-*:{_value(option)}" if option.many else f":{_value(option)}"


def _value(option: Option) -> str:
    value = option.value.replace(":", "\\:")
    if option.choices:
        return f"{value}:({' '.join(option.choices)})"
    return f"{value}:_kvtheory_value {_quoted(option.value)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


_SCRIPT = """\
#compdef kvtheory
# Completion of kvtheory for zsh, printed by: kvtheory completion zsh

_kvtheory_value() {{  # names, after a colon their parameters, files
  local kind=$argv[-1]
  local -a names
  if [[ $PREFIX == *:* ]]; then
    case "$kind ${{PREFIX%%:*}}" in
{parameters}
    esac
    compset -P '*[:,]' && compadd -S '=' -- $names
  else
    case $kind in
{names}
    esac
    compadd -- $names
  fi
  case $kind in
    {files}) _files ;;
    {folders}) _files -/ ;;
  esac
}}

_kvtheory() {{
  local command
  local -a commands
  commands=(
{first}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  command=$words[2]
  commands=()
  case $command in
{second}
  esac
  if (( $#commands && CURRENT == 3 )); then
    _describe command commands
    return
  fi
  (( $#commands )) && command+=" $words[3]"
  shift ${{(w)#command}} words
  (( CURRENT -= ${{(w)#command}} ))
  if [[ $PREFIX == -* && $PREFIX != *=* ]]; then  # ends the values of an option that takes several
    words=($words[1] $words[CURRENT])
    CURRENT=2
  fi
  case $command in
{commands}
  esac
}}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _kvtheory "$@"
else
  compdef _kvtheory kvtheory
fi
"""
