"""Text prompts with real shared prefixes, for serving benchmarks: a JSON object a line.

``{"prompt": "Bababe time way day Bababi own new the"}`` are two units of four words. The first word
of a unit is its name, a capital letter and syllables that count the units of the tree; the others
are small words that depend on the unit alone. So queries with a common prefix begin with the same
text, and at the first unit that differs the text differs from the first word on. Where the
instance has them, ``"timestamp"`` (milliseconds) and ``"output_length"`` (tokens) stand beside the
prompt, as in Mooncake traces.

A unit has ``block_size`` words; the last one of a prompt is cut so that the prompt has
``input_length`` words, and tokens beyond full units are words of their own, after a name that
begins with ``Tail-``. Words are not tokens: the small ones are one token in most tokenizers, with
their blank, names are several, and tokenizers vary. So a server's prompts are longer than
``input_length`` by a factor that is the same for all units, and its blocks do not begin where
units do; what two prompts have in common is the same share of them.
"""

from array import array
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from kvtheory.errors import InputError
from kvtheory.instance import Ids, Instance
from kvtheory.traces.files import at_line, lines, written_whole
from kvtheory.traces.mooncake import decode, milliseconds, seconds
from kvtheory.traces.sequences import built, refuse

TAIL = "Tail-"
_SYLLABLES = [c + v for c in "bdfghjklmnprstvz" for v in "aeiou"]
_VALUE = {syllable: i for i, syllable in enumerate(_SYLLABLES)}
# short and common: one token each in most tokenizers
_WORDS = """
    the of and to in for is on that by this with you it not or be are from at as your all have new
    more an was we will home can us about if page my has search free but our one other do no time
    they site he up may what which their out use any there see only so his when here who
"""
_SMALL = tuple(_WORDS.split())


def write(instance: Instance, path: Path) -> None:
    """Write the prompts; reading them with the same block size builds an equal tree.

    Raises
    ------
    InputError
        If the instance has what the format cannot say: a cut, end nodes, warm caches, or a query
        with fewer tokens than its units but the last.
    """
    refuse(instance, "prompts", "beyond", "end", "warm")
    more: list[list[str]] = []
    if instance.arrival is not None:
        more.append([f', "timestamp": {milliseconds(a)}' for a in instance.arrival.tolist()])
    if instance.output_length is not None:
        more.append([f', "output_length": {n}' for n in instance.output_length.tolist()])
    with written_whole(path) as stream:
        for prompt, *rest in zip(_prompts(instance), *more, strict=True):
            stream.write(f'{{"prompt": "{prompt}"{"".join(rest)}}}\n'.encode())


def read(
    path: Path, ids: Ids | None = None, block_size: int | None = None, progress: bool = False
) -> Instance:
    """Read what `write` wrote; other prompts have no units and are refused.

    Without ``block_size`` it is the number of words of the longest unit, which a file of prompts
    that are all cut does not tell. Units are numbered by their names, ``ids`` being global.

    Raises
    ------
    InputError
        Naming the file, the line and what is wrong with it.
    """
    flat, size, words = array("q"), array("q"), array("q")
    times, made = array("d"), array("q")
    longest = 1
    for number, text in lines(path, progress):
        try:
            row = decode(text)
            prompt = row["prompt"].split()
            if "timestamp" in row:
                times.append(seconds(row["timestamp"]))
            if "output_length" in row:
                made.append(row["output_length"])
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ) as error:
            problem = f'is not a prompt as {{"prompt": …}}: {error}'
            raise at_line(path, number, problem) from None
        begin = [i for i, word in enumerate(prompt) if word[0].isupper()]
        if prompt and begin[:1] != [0]:
            raise at_line(path, number, f"{prompt[0][:40]!r} is not the name of a unit")
        for first, stop in pairwise([*begin, len(prompt)]):
            name = prompt[first]
            if name.startswith(TAIL):
                break
            flat.append(_number(path, number, name))
            longest = max(longest, stop - first)
        size.append(sum(not prompt[i].startswith(TAIL) for i in begin))
        words.append(len(prompt))
    for key, values in (("timestamp", times), ("output_length", made)):
        if len(values) not in (0, len(size)):
            raise InputError(f"{path}: {key} is on some lines and not on others")
    block = longest if block_size is None else block_size
    given = np.array(words)
    whole = np.array(size) * block
    return built(
        path,
        flat,
        size,
        format="prompts",
        ids=ids or "global",
        block_size=block,
        arrival=np.array(times) if times else None,
        input_length=None if np.array_equal(given, whole) else given,
        output_length=np.array(made) if made else None,
    )


def _prompts(instance: Instance) -> Iterator[str]:
    tree, log, block = instance.tree, instance.log, instance.block_size
    digits = max(2, _digits(max(tree.units, instance.requests)))
    texts: list[str | None] = [None] * tree.edges

    def text_of(edge: int) -> str:
        text = texts[edge]
        if text is None:
            units = range(int(tree.offset[edge]), int(tree.offset[edge + 1]))
            text = texts[edge] = " ".join(_unit(u, digits, block) for u in units)
        return text

    lengths = zip(instance.query_length.tolist(), instance.tokens.tolist(), strict=True)
    for t, (units, tokens) in enumerate(lengths):
        path = log.edge[log.start[t] : log.start[t + 1]][::-1].tolist()
        prompt = " ".join(map(text_of, path))
        left = tokens - units * block
        if left < 0:
            if left <= -block:
                raise InputError(
                    f"query {t} has {tokens} tokens but {units} units of {block}: the format "
                    "'prompts' can cut the last unit alone"
                )
            prompt = prompt.rsplit(" ", -left)[0]
        elif left > 0:
            tail = " ".join([f"{TAIL}{_name(t, digits).lower()}", *_filling(t, left - 1)])
            prompt = f"{prompt} {tail}" if prompt else tail
        yield prompt


def _unit(unit: int, digits: int, block: int) -> str:
    return " ".join([_name(unit, digits), *_filling(unit, block - 1)])


def _filling(number: int, count: int) -> list[str]:
    # a linear congruence: any words do, as long as they depend on the number alone
    out, state = [], (number * 2_654_435_761 + 97) % 2**32
    for _ in range(count):
        state = (state * 1_664_525 + 1_013_904_223) % 2**32
        out.append(_SMALL[(state >> 16) % len(_SMALL)])
    return out


def _digits(most: int) -> int:
    digits, reach = 1, len(_SYLLABLES)
    while reach < most:
        digits, reach = digits + 1, reach * len(_SYLLABLES)
    return digits


def _name(number: int, digits: int) -> str:
    """The number in syllables.

    >>> _name(0, 3), _name(81, 3)
    ('Bababa', 'Babebe')
    """
    out = []
    for _ in range(digits):
        number, rest = divmod(number, len(_SYLLABLES))
        out.append(_SYLLABLES[rest])
    return "".join(reversed(out)).capitalize()


def _number(path: Path, line: int, name: str) -> int:
    number = 0
    for i in range(0, len(name), 2):
        value = _VALUE.get(name[i : i + 2].lower())
        if value is None:
            raise at_line(path, line, f"{name[:40]!r} is not the name of a unit")
        number = number * len(_SYLLABLES) + value
    return number
