"""The exact law of a randomised policy in the driver, by enumerating its draws.

Policies draw by `random_words.init` and `random_words.below` and know no other randomness. Here
those two are replaced while the driver is traced: an index is read from a script, and how many
there were to choose from is noted, so that every sequence of draws can be run.
"""

from collections import defaultdict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int, Key

from kvtheory.cache import EvictionPolicy, Scalar, Tape
from kvtheory.errors import InputError, bad
from kvtheory.eviction import random_words
from kvtheory.instance import Instance
from kvtheory.step import OK, init, serve
from kvtheory.testing.small_driver import on_device, small_tape

LANES = 64
DRAWS = 64

Hits = tuple[int, ...]


class TooManyRuns(InputError):
    """The law needs more runs than were allowed."""


class Script(NamedTuple):
    """In place of a stream of random words: indices to draw, and out of how many each was."""

    place: Scalar
    index: Int[Array, " draws"]
    among: Int[Array, " draws"]


def driver_law(
    policy: EvictionPolicy,
    sequences: Sequence[Sequence[int]],
    capacity: int,
    *,
    most_runs: int = 5_000,
) -> dict[Hits, Fraction]:
    """The exact distribution of the hits of all queries, as `kvtheory.testing.law` has it.

    Parameters
    ----------
    policy
        A policy that draws by ``random_words.init`` and ``random_words.below``, called by these
        names, and that has one stream of them in its state.
    sequences, capacity
        A tiny instance, as for `kvtheory.testing.small_driver.run_small`.
    most_runs
        Runs to spend at most: as many as there are sequences of draws.

    Raises
    ------
    TooManyRuns
        If the law needs more than ``most_runs``, or a run more than 64 draws.
    InputError
        If the policy has no such stream, or more than one.

    Examples
    --------
    >>> from kvtheory.eviction import RandomLeaf
    >>> driver_law(RandomLeaf(), [[1], [2], [3], [1]], 2)
    {(0, 0, 0, 0): Fraction(1, 2), (0, 0, 0, 1): Fraction(1, 2)}
    """
    instance = Instance.from_tokens(sequences)
    seen = instance.uncompressed() if policy.per_unit else instance
    tape = small_tape(policy, seen, capacity)
    device_policy, size = on_device(policy), jnp.asarray([capacity], jnp.int32)
    check_scriptable(policy, tape)

    probability: dict[Hits, Fraction] = defaultdict(Fraction)
    to_run: list[list[int]] = [[]]
    runs = 0
    while to_run:
        scripts, to_run = to_run[-LANES:], to_run[:-LANES]
        runs += len(scripts)
        if runs > most_runs:
            raise TooManyRuns(f"the law of {policy.name!r} needs more than {most_runs} runs")
        indices = np.zeros((LANES, DRAWS), np.int32)
        for lane, script in enumerate(scripts):
            indices[lane, : len(script)] = script
        out = _scripted(device_policy, tape, size, indices)
        for script, hits, fault, drawn, among in zip(
            scripts, *(np.asarray(x).tolist() for x in out), strict=False
        ):
            if fault != OK:
                raise AssertionError(f"{policy.name!r} breaks the rules with the draws {script}")
            if drawn > DRAWS:
                raise TooManyRuns(f"a run of {policy.name!r} draws more than {DRAWS} times")
            # after its script a run takes index 0: the other indices are runs of their own
            taken = script + [0] * (drawn - len(script))
            for at in range(len(script), drawn):
                to_run.extend([*taken[:at], other] for other in range(1, among[at]))
            chance = Fraction(1)
            for n in among[:drawn]:
                chance /= n
            probability[tuple(hits[: instance.requests])] += chance
    return dict(sorted(probability.items()))


def check_scriptable(policy: EvictionPolicy, tape: Tape) -> None:
    """Refuse a policy whose draws cannot be enumerated."""
    size, key = jnp.ones(1, jnp.int32), jax.random.key(0)
    with _scripted_words(jnp.zeros(DRAWS, jnp.int32)):
        state = jax.eval_shape(init, on_device(policy), tape, size, key)
    if len(_scripts(state.policy)) != 1:
        raise bad("policy", policy.name, "needs one stream of random_words.init in its state")


@jax.jit
def _scripted(
    policy: EvictionPolicy,
    tape: Tape,
    size: Int[Array, " workers"],
    indices: Int[Array, "lanes draws"],
) -> tuple[Array, Array, Array, Array]:
    """Hits, fault, number of draws, and what each draw was out of; all by lane."""
    requests = jnp.arange(tape.query_length.shape[0], dtype=jnp.int32)

    def lane(index: Array) -> tuple[Array, Array, Array, Array]:
        with _scripted_words(index):
            start = init(policy, tape, size, jax.random.key(0))
            end, hits = lax.scan(lambda s, t: serve(policy, tape, size, s, t), start, requests)
        (script,) = _scripts(end.policy)
        return hits, end.fault, script.place, script.among

    return lax.map(lane, indices)


@contextmanager
def _scripted_words(index: Int[Array, " draws"]) -> Generator[None]:
    def start(key: Key[Array, ""]) -> Script:
        return Script(jnp.zeros((), jnp.int32), index, jnp.ones(DRAWS, jnp.int32))

    def below(script: Script, n: Scalar) -> tuple[Script, Scalar, Array]:
        place, index, among = script
        among = among.at[place].set(jnp.maximum(n, 1), mode="drop")
        return Script(place + 1, index, among), index[place], jnp.ones((), jnp.int32)

    with mock.patch.multiple(random_words, init=start, below=below):
        yield


def _scripts(state: Any) -> list[Script]:
    def is_script(node: Any) -> bool:
        return isinstance(node, Script)

    return [s for s in jax.tree.leaves(state, is_leaf=is_script) if is_script(s)]
