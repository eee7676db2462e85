"""What the exact engine has to know of an online algorithm: its beliefs and how they move.

A belief is all that an outsider who knows the requests, but not the coins, can say of the
algorithm: its state if it is deterministic, the law of its state if it is not.

Beliefs are hashable values of any kind. Add an algorithm: a frozen dataclass whose fields are the
hyper-parameters, with a ``name`` and ``on(forest, capacity)`` that returns a `BeliefModel`; list it
in ``MODELS`` of `models`.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, Protocol, runtime_checkable

from kvtheory.ratio.exact_engine.forest import Forest


class BeliefModel(Protocol):
    """An online algorithm on one forest at one capacity, as the oblivious adversary sees it."""

    def belief_init(self) -> Any:
        """The belief before the first query: empty cache, empty state."""
        ...

    def belief_step(self, belief: Any, query: int) -> tuple[Fraction, Any]:
        """Expected misses in units when the query that ends at unit ``query`` is served, and what
        is believed then.
        """
        ...


@runtime_checkable
class Foldable(Protocol):
    """A model whose beliefs can be moved by automorphisms, so that equivalent ones are one.

    ``colours`` says of each unit something that moves with it; it need not tell beliefs apart
    unless ``colours_tell_all``.
    """

    colours_tell_all: ClassVar[bool]

    def relabel(self, belief: Any, permutation: Sequence[int]) -> Any:
        """The belief with unit u renamed ``permutation[u]``, in the same normal form."""
        ...

    def colours(self, belief: Any) -> Sequence[Any]:
        """One comparable value per unit."""
        ...


class Beliefs(Protocol):
    """An online algorithm with its hyper-parameters, not yet on a forest."""

    name: ClassVar[str]

    def on(self, forest: Forest, capacity: int) -> Any:
        """A `BeliefModel` on a forest at capacity B (or a policy without a finite belief)."""
        ...
