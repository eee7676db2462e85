"""The completion script for fish."""

from collections.abc import Iterator

from kvtheory.commands.option import Option
from kvtheory.commands.words import FILES, FOLDERS, Vocabulary


def script(words: Vocabulary) -> str:
    """The script, with the words in it."""
    rules = [
        f"complete -c kvtheory -n 'test (count (commandline -opc)) -eq 1' -a {word} "
        f"-d {_quoted(what)}"
        for word, what in words.first_words().items()
    ]
    for first, seconds in words.groups().items():
        rules += [
            f"complete -c kvtheory -n '__kvtheory_is {first}' -a {second} -d {_quoted(what)}"
            for second, what in seconds.items()
        ]
    for command, options in words.options.items():
        rules += _rules(command, options)
    return _SCRIPT.format(
        groups=" ".join(words.groups()),
        names="\n".join(
            f"        case {_quoted(kind)}\n            string split ' ' -- '{' '.join(names)}'"
            for kind, names in words.names.items()
        ),
        parameters="\n".join(
            f"        case {_quoted(f'{kind} {name}')}\n            set parameters {' '.join(some)}"
            for kind, names in words.names.items()
            for name, some in names.items()
            if some
        ),
        rules="\n".join(rules),
    )


def _rules(command: str, options: list[Option]) -> Iterator[str]:
    places = [option for option in options if not option.names]
    for i, option in enumerate(places):
        yield f"complete -c kvtheory -n '__kvtheory_place {i} {command}' {_values(option)}"
    for option in options:
        if not option.names:
            continue
        names = " ".join(
            f"-{'l' if n.startswith('--') else 's'} {n.lstrip('-')}" for n in option.names
        )
        rule = f"complete -c kvtheory -n '__kvtheory_is {command}' {names}"
        value = f" -r {_values(option)}" if option.value else ""
        yield f"{rule}{value} -d {_quoted(option.about)}"
        if option.many:
            yield (
                f"complete -c kvtheory -n '__kvtheory_after {option.names[0]} {command}' "
                f"{_values(option)}"
            )


def _values(option: Option) -> str:
    if option.choices:
        return f"-f -a {_quoted(' '.join(option.choices))}"
    files = "-F" if option.value in FILES else "-f"
    names = "(__fish_complete_directories)" if option.value in FOLDERS else ""
    names = names or f"(__kvtheory_value {_quoted(option.value)})"
    return f"{files} -a {_quoted(names)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SCRIPT = """\
# Completion of kvtheory for fish, printed by: kvtheory completion fish

function __kvtheory_names
    switch $argv
{names}
    end
end

function __kvtheory_value --description 'names, after a colon their parameters'
    set -l typed (string replace -r '^--[a-z-]+=' '' -- (commandline -ct))
    if not string match -q '*:*' -- $typed
        __kvtheory_names $argv
        return
    end
    set -l parameters
    switch $argv' '(string split -m 1 : -- $typed)[1]
{parameters}
    end
    for parameter in $parameters
        string replace -r '[^:,]*$' '' -- $typed | string replace -r '$' $parameter=
    end
end

function __kvtheory_words --description 'what is typed after kvtheory, the command as one word'
    set -l words (commandline -opc)[2..-1]
    if contains -- "$words[1]" {groups}; and set -q words[2]
        set words "$words[1] $words[2]" $words[3..-1]
    end
    string join \\n -- $words
end

function __kvtheory_is
    set -l words (__kvtheory_words)
    test "$words[1]" = "$argv"
end

function __kvtheory_last --description 'the last option that is typed'
    set -l given (string match -r -- '^-[-a-z].*' $argv)
    test -n "$given"; and string replace -r '=.*' '' -- $given[-1]
end

function __kvtheory_after
    set -l words (__kvtheory_words)
    test "$words[1]" = "$argv[2..-1]"; and test "$(__kvtheory_last $words[2..-1])" = $argv[1]
end

function __kvtheory_place --description 'no option so far, and so many arguments'
    set -l words (__kvtheory_words)
    test "$words[1]" = "$argv[2..-1]"; or return
    test -z "$(__kvtheory_last $words[2..-1])"; and test (count $words) -eq (math $argv[1] + 1)
end

complete -c kvtheory -e
complete -c kvtheory -f
complete -c kvtheory -l help -s h -d 'show the help'
{rules}
"""
