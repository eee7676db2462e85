"""Settings and data that all tests share."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("kvtheory", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("kvtheory")


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """The folder of real traces; they are no part of the project, so it may not be there."""
    root = Path(__file__).resolve().parents[1]
    places = [root.parent / "shared" / "traces", root / "shared" / "traces"]
    if named := os.environ.get("KVTHEORY_TRACES"):
        places.insert(0, Path(named))
    for place in places:
        if place.is_dir():
            return place
    return pytest.skip("no real traces: neither KVTHEORY_TRACES nor ../shared/traces is a folder")
