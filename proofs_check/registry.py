"""Every claim, in order."""

from collections.abc import Sequence

from kvtheory.errors import unknown
from proofs_check.claim import Claim
from proofs_check.claims import (
    affinity_and_balance,
    batches,
    clocks,
    growing_costs,
    interval_lp,
    layered_rlt,
    layers,
    leaf_lru_width,
    leaf_rule,
    learned_routing,
    makespan,
    partition,
    phase_lemma,
    phase_rule,
    regret,
    rlt_brooms,
    rlt_trees,
    worse_than_lru,
    yao,
)

CLAIMS: tuple[Claim, ...] = (
    leaf_lru_width.CLAIM,
    rlt_brooms.CLAIM,
    rlt_trees.CLAIM,
    yao.CLAIM,
    phase_lemma.CLAIM,
    clocks.CLAIM,
    leaf_rule.CLAIM,
    growing_costs.RULE,
    growing_costs.BELADY,
    interval_lp.CLAIM,
    regret.CLAIM,
    makespan.CLAIM,
    makespan.CACHES,
    makespan.POTENTIAL,
    affinity_and_balance.CLAIM,
    partition.CLAIM,
    batches.CLAIM,
    batches.SAME,
    batches.LONG,
    worse_than_lru.CLAIM,
    phase_rule.KEPT,
    phase_rule.LITERAL,
    layers.CLAIM,
    layered_rlt.TABLE,
    layered_rlt.PLAIN,
    layered_rlt.ALL_STEMS,
    layered_rlt.STARS,
    learned_routing.CLAIM,
)


def chosen(ids: Sequence[str]) -> list[Claim]:
    """The claims with these ids; a number stands for all that begin with it.

    Raises
    ------
    InputError
        For an id that is not there, with the nearest ones.
    """
    for wanted in ids:
        if not any(wanted in (claim.id, number(claim)) for claim in CLAIMS):
            raise unknown("claim", wanted, [claim.id for claim in CLAIMS])
    return [claim for claim in CLAIMS if not ids or claim.id in ids or number(claim) in ids]


def number(claim: Claim) -> str:
    """The number of a claim without the letter."""
    return claim.id.rstrip("abcdefgh")
