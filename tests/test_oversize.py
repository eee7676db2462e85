import numpy as np
import pytest

from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.oversize import check_oversize, path_units

INSTANCE = Instance.from_tokens([[1], [1, 2, 3], [], [4, 5, 6, 7], [1, 2, 3]])


def test_error_names_the_query_its_length_the_capacity_and_the_modes():
    with pytest.raises(InputError) as caught:
        check_oversize(INSTANCE, 2, "error")
    message = str(caught.value)
    for part in ("query 1", "3 units", "only 2", "2 more", "'truncate'", "'skip'"):
        assert part in message
    with pytest.raises(InputError, match="query 3 has 4 units"):
        check_oversize(INSTANCE, 3)
    assert check_oversize(INSTANCE, 4) is INSTANCE


def test_truncate_cuts_and_keeps_the_requested_units():
    cut = check_oversize(INSTANCE, 2, "truncate")
    assert path_units(cut).tolist() == [1, 2, 0, 2, 2]
    assert cut.query_length.tolist() == INSTANCE.query_length.tolist()
    assert check_oversize(INSTANCE, 4, "truncate") is INSTANCE


def test_skip_changes_nothing():
    assert check_oversize(INSTANCE, 1, "skip") is INSTANCE


@pytest.mark.parametrize(("capacity", "mode"), [(0, "skip"), (-1, "truncate"), (4, "cut")])
def test_bad_arguments(capacity, mode):
    with pytest.raises(InputError, match=r"capacity|oversize"):
        check_oversize(INSTANCE, capacity, mode)


def test_empty_instances():
    for paths in ([], [[]]):
        instance = Instance.from_tokens(paths)
        assert check_oversize(instance, 1) is instance
        assert path_units(instance).dtype == np.int64
