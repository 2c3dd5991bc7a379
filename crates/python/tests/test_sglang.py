"""The storage of SGLang's hierarchical cache, beside the one of files that SGLang has."""
import importlib
import importlib.util
import random
import sys
import types

import pytest

import aquifer

try:
    import torch
except ImportError:
    torch = None
pytestmark = pytest.mark.skipif(torch is None, reason="torch is not installed")
PAGE = (2, 4, 16, 8)


@pytest.fixture(scope="module")
def interface():
    """SGLang's module of storages, without all the others that its package imports and that want a GPU."""
    if importlib.util.find_spec("sglang") is None:
        pytest.skip("sglang is not installed")
    packages = {"sglang": list(importlib.util.find_spec("sglang").submodule_search_locations), "sglang.srt.utils": [], "sglang.srt.utils.common": []}
    for name, places in packages.items():
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = places
    sys.modules["sglang.srt.utils.common"].human_readable_int = str
    try:
        module = importlib.import_module("sglang.srt.mem_cache.hicache_storage")
        importlib.reload(importlib.import_module("aquifer.sglang"))
    except ImportError as error:
        _forget()
        pytest.skip(f"sglang cannot be imported: {error}")
    yield module
    _forget()


def _forget():
    for name in [name for name in sys.modules if name == "sglang" or name.startswith("sglang.")]:
        del sys.modules[name]


def config(interface, **options):
    options = {"tp_rank": 0, "tp_size": 1, "is_mla_model": False, "extra_config": None, **options}
    return interface.HiCacheStorageConfig(
        pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1, enable_storage_metrics=False, is_page_first_layout=False, model_name="m", **options
    )


def page_of(n):
    return torch.randn(PAGE, generator=torch.Generator().manual_seed(n)).to(torch.bfloat16)


def test_pages(heap):
    storage = aquifer.sglang.Storage(capacity="4M", heap=heap)
    keys, pages = [f"{n:064x}" for n in range(50)], [page_of(n) for n in range(50)]
    assert storage.batch_exists(keys) == 0 and storage.batch_set(keys, pages) and storage.batch_exists([*keys, "none"]) == 50
    places = [torch.zeros(PAGE, dtype=torch.bfloat16) for _ in keys]
    found = storage.batch_get(keys, places)
    assert all(one is place and torch.equal(one, page) for one, place, page in zip(found, places, pages))
    assert storage.get("none", places[0]) is None and storage.get(keys[1], torch.zeros(3)) is None
    assert torch.equal(storage.get(keys[2]).view(torch.bfloat16), pages[2].reshape(-1))
    # Pages of one key are the same, so the first stays.
    assert storage.set(keys[0], pages[1]) and torch.equal(storage.get(keys[0], places[0]), pages[0])
    assert not storage.set("large", torch.zeros(8 << 20)) and not storage.exists("large")
    for n in range(3000):
        storage.set(f"more {n}", pages[n % 50])
    assert storage.stats()["bytes"] <= 4 << 20 and "of 4 MiB" in repr(storage)
    storage.clear()
    assert not storage.exists(keys[0])
    storage.close()


def test_the_same_as_its_storage_of_files(interface, heap, tmp_path):
    files = interface.HiCacheFile(config(interface), str(tmp_path))
    ours = aquifer.sglang.Storage(config(interface, extra_config={"capacity": "100M"}), {}, heap=heap)
    assert isinstance(ours, interface.HiCacheStorage) and ours.stats()["capacity"] == 100 << 20
    chosen = random.Random(1)
    for _ in range(200):
        first, count = chosen.randrange(40), chosen.randrange(1, 6)
        keys = [f"{n:064x}" for n in range(first, first + count)]
        if chosen.random() < 0.4:
            results = [storage.batch_set(keys, [page_of(int(key, 16)) for key in keys]) for storage in (files, ours)]
        else:
            results = [storage.batch_get(keys, [torch.zeros(PAGE, dtype=torch.bfloat16) for _ in keys]) for storage in (files, ours)]
            results = [[None if page is None else page.tolist() for page in pages] for pages in results]
        assert results[0] == results[1]
        assert files.batch_exists(keys) == ours.batch_exists(keys) and files.exists(keys[0]) == ours.exists(keys[0])


def test_sglang_makes_one(interface, heap, monkeypatch):
    try:
        factory = importlib.import_module("sglang.srt.mem_cache.storage.backend_factory").StorageBackendFactory
    except ImportError as error:
        pytest.skip(f"sglang cannot be imported: {error}")
    monkeypatch.setattr(aquifer._heaps, "default", lambda: heap)
    extra = {"backend_name": "aquifer", "module_path": "aquifer.sglang", "class_name": "Storage", "capacity": "10M"}
    made = factory.create_backend("dynamic", config(interface, extra_config=extra), None)
    assert made.set("key", page_of(1)) and made.exists("key") and type(made).__name__ == "Storage"
    with pytest.raises(ValueError, match="MLA"):
        aquifer.sglang.Storage(config(interface, is_mla_model=True, tp_size=2))
