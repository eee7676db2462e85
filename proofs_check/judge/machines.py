"""The least makespan on parallel machines, by trying every assignment."""

from itertools import product

import numpy as np


def makespan(costs: np.ndarray, worker: np.ndarray) -> np.ndarray:
    """float64[cases]; the largest load, ``worker`` being int[cases, n] or int[n]."""
    cases, n, workers = costs.shape
    taken = np.take_along_axis(costs, np.broadcast_to(worker, (cases, n))[:, :, None], axis=2)
    mine = np.broadcast_to(worker, (cases, n))[:, :, None] == np.arange(workers)
    return (taken * mine).sum(axis=1).max(axis=1)


def least_makespan(costs: np.ndarray) -> np.ndarray:
    """float64[cases]; over all M^n assignments."""
    _, n, workers = costs.shape
    least = np.full(len(costs), np.inf)
    for assignment in product(range(workers), repeat=n):
        least = np.minimum(least, makespan(costs, np.array(assignment)))
    return least
