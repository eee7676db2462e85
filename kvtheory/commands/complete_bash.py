"""The completion script for bash (3.2 or later), and all it needs to know in tables."""

from kvtheory.commands.option import Option
from kvtheory.commands.words import FILES, FOLDERS, Vocabulary


def script(words: Vocabulary) -> str:
    """The script, with the words in it."""
    return _SCRIPT.format(
        first=" ".join(words.first_words()),
        second=_cases({first: list(second) for first, second in words.groups().items()}),
        options=_cases({name: map(_spec, some) for name, some in words.options.items()}),
        names=_cases({kind: list(names) for kind, names in words.names.items()}),
        parameters=_cases(
            {
                f"{kind} {name}": parameters
                for kind, names in words.names.items()
                for name, parameters in names.items()
                if parameters
            }
        ),
        files="|".join(f'"{kind}"' for kind in FILES),
        folders="|".join(f'"{kind}"' for kind in FOLDERS),
    )


def _spec(option: Option) -> str:
    """``--eviction=POLICY+``: + for several values; ``--json`` is a switch, ``SOURCE`` a place."""
    if not option.names:
        return option.value
    value = f"={option.value}{'+' if option.many else ''}" if option.value else ""
    return " ".join(name + value for name in option.names)


def _cases(table: dict) -> str:
    lines = [f'    "{key}") echo "{" ".join(words)}" ;;' for key, words in table.items()]
    return "\n".join(lines)


_SCRIPT = """\
# Completion of kvtheory for bash, printed by: kvtheory completion bash

_kvtheory_second() {{  # the second words of the commands that begin with $1
  case $1 in
{second}
  esac
}}

_kvtheory_options() {{  # of command $1; OPTION=VALUE, + for several values
  case $1 in
{options}
  esac
}}

_kvtheory_names() {{  # what a value $1 may be
  case $1 in
{names}
    *"|"*) echo "${{1//|/ }}" ;;
  esac
}}

_kvtheory_parameters() {{  # of the name $2 as a value $1
  case "$1 $2" in
{parameters}
  esac
}}

_kvtheory_values() {{  # adds to COMPREPLY what a value $1 that begins with $2 may be
  local kind=$1 current=$2 made parameter
  if [[ $current == *:* ]]; then
    made=${{current%"${{current##*[:,]}}"}}
    for parameter in $(_kvtheory_parameters "$kind" "${{current%%:*}}"); do
      [[ $made$parameter= == "$current"* ]] && COMPREPLY+=("$made$parameter=")
    done
    (( ${{#COMPREPLY[@]}} )) && compopt -o nospace 2>/dev/null
  else
    COMPREPLY+=($(compgen -W "$(_kvtheory_names "$kind")" -- "$current"))
  fi
  case $kind in
    {files})
      compopt -o filenames 2>/dev/null
      COMPREPLY+=($(compgen -f -- "$current")) ;;
    {folders})
      compopt -o filenames 2>/dev/null
      COMPREPLY+=($(compgen -d -- "$current")) ;;
  esac
}}

_kvtheory() {{
  local line=${{COMP_LINE:0:COMP_POINT}} IFS=$' \\t\\n'
  local command current kind="" option prefix word
  local -a options words
  local -i count first=2 i places=0 takes=0
  COMPREPLY=()
  read -ra words <<< "$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  count=${{#words[@]}}
  current=${{words[count - 1]}}
  if (( count <= 2 )); then
    COMPREPLY=($(compgen -W "{first} --help --version" -- "$current"))
    return
  fi
  command=${{words[1]}}
  if [[ -n $(_kvtheory_second "$command") ]]; then
    if (( count == 3 )); then
      COMPREPLY=($(compgen -W "$(_kvtheory_second "$command") --help" -- "$current"))
      return
    fi
    command+=" ${{words[2]}}"
    first=3
  fi
  read -ra options <<< "$(_kvtheory_options "$command")"
  # what is typed so far: places filled, and an option that still takes values (-1 for any number)
  for (( i = first; i < count; i++ )); do
    word=${{words[i]}}
    if [[ $word == -[-a-z]* ]]; then
      (( i == count - 1 )) && [[ $word != *=* ]] && break
      takes=0
      for option in "${{options[@]}}"; do
        if [[ $option == "${{word%%=*}}="* ]]; then
          kind=${{option#*=}}
          takes=1
          [[ $kind == *+ ]] && takes=-1
          kind=${{kind%+}}
        fi
      done
      (( i < count - 1 && takes == 1 )) && [[ $word == *=* ]] && takes=0
    elif (( i < count - 1 )); then
      if (( takes == 0 )); then places+=1; elif (( takes > 0 )); then takes=0; fi
    fi
  done
  if [[ $current == --*=* ]]; then
    prefix=${{current%%=*}}=
    _kvtheory_values "$kind" "${{current#*=}}"
    COMPREPLY=("${{COMPREPLY[@]/#/$prefix}}")
  elif [[ $current == -* ]]; then
    for option in "${{options[@]}}" --help; do
      [[ $option == -* && ${{option%%=*}} == "$current"* ]] && COMPREPLY+=("${{option%%=*}}")
    done
  elif (( takes )); then
    _kvtheory_values "$kind" "$current"
  else
    for option in "${{options[@]}}"; do
      [[ $option == -* ]] && continue
      (( places-- == 0 )) && _kvtheory_values "$option" "$current"
    done
  fi
  # readline replaces only what follows the last of these characters
  prefix=${{current%"${{current##*[:=]}}"}}
  COMPREPLY=("${{COMPREPLY[@]#"$prefix"}}")
}}

complete -F _kvtheory kvtheory
"""
