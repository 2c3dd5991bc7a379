"""Heaps that are much smaller than what the tests put into them."""
import numpy as np
import pytest

import aquifer


@pytest.fixture(scope="session")
def heap(tmp_path_factory):
    """A heap of 16 MiB of RAM."""
    with aquifer.Heap(ram="16M", flash=tmp_path_factory.mktemp("flash"), flash_size="1G") as heap:
        yield heap


@pytest.fixture
def random():
    """Numbers that are the same in each run."""
    return np.random.default_rng(7)
