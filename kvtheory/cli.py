"""The command line: finds the command, reads its options, turns errors into one or two lines.

Nothing heavy is imported before a command runs, so that help and mistakes answer at once. Each
command is a module of `kvtheory.commands` with a frozen dataclass ``Options`` and a function
``run(options)`` that returns the exit code.
"""

import contextlib
import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any

from kvtheory.errors import InputError, unknown

# name: (module, what it does)
COMMANDS = {
    "ratio": ("ratio", "eviction policies against the offline optimum"),
    "curve": ("curve", "hit rates against capacity, with the optimum and the ceiling"),
    "exact": ("exact", "exact ratios on a small tree, with worst cases"),
    "survey": ("survey", "exact ratios on every small tree"),
    "check": ("check", "the claims of the theory, each checked, with mutants"),
    "adversary": ("adversary", "a hard request sequence for a policy, and how hard it is"),
    "simulate": ("simulate", "routers and eviction policies on several workers"),
    "optimum": ("optimum", "the best that routing and eviction could have done together"),
    "sweep": ("sweep", "a grid of cells in many processes, kept as they finish"),
    "report": ("report", "one page of a comparison or a sweep, for people"),
    "trace info": ("trace_info", "what a trace or a generated instance contains"),
    "trace convert": ("trace_convert", "write a trace or a generated instance in another format"),
    "policies": ("policies", "every eviction policy with its guarantee and source"),
    "routers": ("routers", "every router with its guarantee and source"),
    "generators": ("generators", "every generator of instances with its parameters"),
    "bench": ("bench", "measure the speed on this machine"),
    "completion": ("completion", "a script that lets a shell complete commands and options"),
}
OK, FAILED, BAD_INPUT, INTERRUPTED, BROKEN_PIPE, TERMINATED = 0, 1, 2, 130, 141, 143
_NO_SUCH = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError)
# what each exit code means; docs/reference/commands.md says more
EXIT_CODES = {
    OK: "done",
    FAILED: "some of it failed and the rest was printed, or all of it failed",
    BAD_INPUT: "bad input",
    INTERRUPTED: "interrupted by Ctrl-C",
    BROKEN_PIPE: "the reader of the output left",
    TERMINATED: "terminated",
}
_ADVICE = {
    errno.EACCES: "check its permissions",
    errno.EISDIR: "name a file in it",
    errno.ENOENT: "check the name",
    errno.ENOSPC: "make room, or write elsewhere",
    errno.ENOTDIR: "check the name",
    errno.EROFS: "write elsewhere",
}

HELP = """\
usage: kvtheory COMMAND [OPTIONS]

KV-cache eviction on prefix trees: policies, the offline optimum, competitive
ratios.

commands:
{commands}

kvtheory COMMAND --help shows the options of a command and an example.

options:
  --help       show this
  --version    show the version
  --debug      with any command: show where an error comes from

exit codes:
{codes}

example:
  kvtheory ratio shared_prefix:groups=32,prompts=16 --eviction llru rlt"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started it
            setattr(sys, name, io.StringIO())
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without ∞ gets ? and no traceback
            stream.reconfigure(errors="replace")
    from kvtheory.commands.interrupts import interruptible

    with interruptible():
        return _answered(arguments, debug=debug)


def _answered(arguments: list[str], *, debug: bool) -> int:
    """Run one command; what goes wrong becomes a line or two and an exit code."""
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt as stop:
        _say("interrupted")
        return TERMINATED if stop.args else INTERRUPTED
    except BrokenPipeError:
        # the reader has left; keep Python from complaining when it flushes at exit
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except InputError as error:
        if debug:
            raise
        _say(f"error: {error}")
        return BAD_INPUT
    except OSError as error:
        if debug:
            raise
        _say(f"error: {_of_file(error)}")
        return BAD_INPUT if isinstance(error, _NO_SUCH) else FAILED
    except MemoryError as error:
        if debug:
            raise
        _say(
            f"error: not enough memory: {_one_line(str(error))}\ntake less of it: fewer requests, "
            "seeds or capacities"
        )
        return FAILED
    except Exception as error:
        if debug:
            raise
        _say(
            f"error: {type(error).__name__}: {_one_line(str(error))}\n"
            "run it again with --debug to see where it comes from"
        )
        return FAILED


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    if not arguments or arguments[0] in ("--help", "-h"):
        print(HELP.format(commands=_listing(COMMANDS), codes=_codes()))
        return OK if arguments else BAD_INPUT
    if arguments[0] == "--version":
        from kvtheory import __version__

        print(f"kvtheory {__version__}")
        return OK
    first = arguments[0]
    if not first or first.startswith("-"):
        raise InputError(f"{first!r} is no command (kvtheory --help lists them)")
    group = {name: what for name, what in COMMANDS.items() if name.split()[0] == first}
    if not group:
        raise unknown("command", first, COMMANDS)
    name, rest = first, arguments[1:]
    if first not in COMMANDS:
        if not rest or rest[0] in ("--help", "-h"):
            print(f"usage: kvtheory {first} COMMAND [OPTIONS]\n\n{_listing(group)}")
            return OK if rest else BAD_INPUT
        name, rest = f"{first} {rest[0]}", rest[1:]
        if name not in group:
            raise unknown("command", name, group)
    module = importlib.import_module(f"kvtheory.commands.{COMMANDS[name][0]}")
    if "--help" in rest or "-h" in rest:
        from kvtheory.commands.help import help_text

        print(help_text(name, module.Options))
        return OK
    return module.run(_options(module.Options, name, rest))


def _options(options: type, name: str, arguments: list[str]) -> Any:
    from kvtheory.commands.arguments import check
    from kvtheory.commands.option import options_of

    arguments = _optional_values(arguments)
    try:
        check(arguments, options_of(options))
    except InputError as error:
        raise InputError(f"{error} (kvtheory {name} --help)") from None
    import tyro

    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(
                options,
                prog=f"kvtheory {name}",
                args=arguments,
                config=(tyro.conf.FlagCreatePairsOff,),
            )
    except SystemExit:
        raise InputError(_unboxed(complaint.getvalue())) from None


def _optional_values(arguments: list[str]) -> list[str]:
    """``--csv`` may stand without a file: then the table goes to standard output, as ``-``."""
    out = []
    for i, argument in enumerate(arguments):
        out.append(argument)
        if argument == "--csv" and (i + 1 == len(arguments) or arguments[i + 1].startswith("--")):
            out.append("-")
    return out


def _unboxed(text: str) -> str:
    """The first paragraph of what the parser says in a frame: what is wrong with the options."""
    import re

    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = [line[2:].rstrip(" │") for line in text.splitlines() if line[:1] in ("│", " ")]
    if "│" not in text:  # without drawing characters the title is a paragraph of its own
        lines = lines[2:]
    rules = (i for i, line in enumerate(lines) if line.startswith(("───", "---")))
    told = " ".join(lines[: next(rules, len(lines))])
    return _one_line(told or text).removeprefix("Error parsing Options: ")


def _one_line(text: str, limit: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _listing(commands: dict[str, tuple[str, str]]) -> str:
    return "\n".join(f"  {name:14} {what}" for name, (_, what) in commands.items())


def _codes() -> str:
    return "\n".join(f"  {code:<4} {what}" for code, what in EXIT_CODES.items())


def _of_file(error: OSError) -> str:
    """What went wrong, with which file, and what to do."""
    parts = [str(error.filename)] if error.filename is not None else []
    parts.append(error.strerror or _one_line(str(error)))
    if error.errno in _ADVICE:
        parts.append(_ADVICE[error.errno])
    return ": ".join(parts)


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        print(f"kvtheory: {text}", file=sys.stderr)
