"""States of llama-cpp-python: its own model, with random weights, and its own caches beside."""
import os
import random
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import aquifer
from aquifer import llama

try:
    import llama_cpp
    from llama_cpp.llama_cache import LlamaDiskCache, LlamaRAMCache
except ImportError:
    llama_cpp = None
needs_llama = pytest.mark.skipif(llama_cpp is None, reason="llama-cpp-python is not installed")
VOCABULARY, WIDTH, LAYERS, HEADS, CONTEXT = 128, 64, 2, 4, 256


def state_of(tokens, size=1000, scores=None):
    """A state that tells its tokens."""
    make = llama_cpp.LlamaState if llama_cpp else SimpleNamespace
    ids = np.zeros(64, np.intc)
    ids[: len(tokens)] = tokens
    data = np.random.default_rng(sum(tokens)).bytes(size)
    scores = np.zeros((len(tokens), 8), np.single) if scores is None else scores
    return make(input_ids=ids, scores=scores, n_tokens=len(tokens), llama_state=data, llama_state_size=size, seed=7)


def same(left, right):
    assert left.input_ids.dtype == right.input_ids.dtype and (left.input_ids == right.input_ids).all()
    # What was never written is no number.
    assert (left.scores.dtype, left.scores.shape) == (right.scores.dtype, right.scores.shape) and left.scores.tobytes() == right.scores.tobytes()
    assert type(left.llama_state) is bytes and left.llama_state == right.llama_state
    assert (left.n_tokens, left.llama_state_size, left.seed) == (right.n_tokens, right.llama_state_size, right.seed)
    return True


def test_a_state_comes_back_as_it_was(heap):
    cache = llama.Cache(heap=heap)
    scores = np.random.default_rng(1).random((3, 100), np.single)
    for size, these in ((0, None), (1, None), (5000, scores), (3 << 20, scores[:, ::2]), (100, np.zeros((0, 8), np.single))):
        state = state_of([1, 2, 3], size, these)
        cache[[1, 2, 3]] = state
        assert same(cache[(1, 2, 3, 4)], state) and same(cache[np.array([1, 9])], state)
        assert not cache.stats()["left_out"]
    assert cache.stats()["states"] == 1 and cache.cache_size == cache.stats()["bytes"] < 2000
    # Zeros have no place.
    cache[[5]] = state_of([5], 100, np.zeros((1 << 10, 1 << 10), np.single))
    assert cache.cache_size < 4000 and cache[[5]].scores.shape == (1 << 10, 1 << 10)
    assert (9,) not in cache and () not in cache and [5, 1] in cache
    with pytest.raises(KeyError):
        cache[[9]]
    assert cache._find_longest_prefix_key([1, 2, 8]) == (1, 2, 3) and cache._find_longest_prefix_key([8]) is None
    cache.prefetch([1, 2])
    cache.clear()
    assert cache.cache_size == 0 and (5,) not in cache and "0 states" in repr(cache)
    # Whether there is a cache is asked so.
    assert cache


def test_large_states_are_in_parts(heap, monkeypatch):
    monkeypatch.setattr(llama, "_PART_BYTES", 1000)
    cache = llama.Cache(heap=heap)
    for size in (999, 1000, 1001, 4000, 123_456):
        state = state_of([size % 64], size, np.ones((10, 100), np.single))
        cache[[size % 64]] = state
        assert same(cache[[size % 64]], state)
    cache.close()
    assert len(cache._store) == 0


def longest(keys, wanted):
    """The first of the keys that has the longest prefix in common."""
    common = [len(os.path.commonprefix([key, wanted])) for key in keys]
    return keys[common.index(max(common))] if common and max(common) else None


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("lengths", [(1, 9), (5, 6)])
def test_the_same_states_as_in_a_dictionary(heap, seed, lengths):
    """The longest prefix counts. States that are the beginning of a new one go first, and then those that were used least lately; where
    all have one length, as in LlamaRAMCache."""
    chosen = random.Random(seed)
    cache = llama.Cache(64 << 10, heap=heap)
    cost = sum(map(len, llama._parts_of(state_of([1]))))
    most = cache.capacity_bytes // cost
    real = LlamaRAMCache(1000 * most) if llama_cpp and lengths == (5, 6) else None
    keys, states = [], {}
    for _ in range(1200):
        tokens = tuple(chosen.randrange(3) + 1 for _ in range(chosen.randrange(*lengths)))
        if chosen.random() < 0.4:
            states[tokens] = state = state_of(tokens)
            # All headers have the same length, so both have room for as many.
            assert sum(map(len, llama._parts_of(state))) == cost
            keys = [key for key in keys if key != tokens]
            for key in [key for key in keys if key == tokens[: len(key)]]:
                keys.remove(key)
                keys.insert(0, key)
            keys = [*keys[max(0, len(keys) + 1 - most) :], tokens]
            cache[list(tokens)] = state
            if real is not None:
                real[tokens] = state
            continue
        expected = longest(keys, tokens)
        assert (tokens in cache) == (expected is not None) and cache._find_longest_prefix_key(tokens) == expected
        if real is not None:
            assert real._find_longest_prefix_key(tokens) == expected
        if expected is None:
            assert pytest.raises(KeyError, cache.__getitem__, tokens)
            continue
        keys.remove(expected)
        keys.append(expected)
        assert same(cache[tokens], states[expected]) and (real is None or same(real[tokens], states[expected]))
    assert cache.stats()["evictions"] and cache.cache_size <= cache.capacity_bytes
    assert cache.cache_size == cache._store.stats()["bytes"] == cost * len(keys)


@needs_llama
def test_the_prefixes_of_its_own_cache(heap):
    """Whatever goes first, what is found has as much in common with what is asked for."""
    chosen, real, ours = random.Random(1), LlamaRAMCache(), llama.Cache(heap=heap)
    for _ in range(1500):
        tokens = tuple(chosen.randrange(3) + 1 for _ in range(chosen.randrange(1, 12)))
        if chosen.random() < 0.3:
            real[tokens] = ours[tokens] = state_of(tokens, 10)
            continue
        found, expected = (cache._find_longest_prefix_key(tokens) for cache in (ours, real))
        assert (found is None) == (expected is None)
        if expected:
            assert llama_cpp.Llama.longest_token_prefix(found, tokens) == llama_cpp.Llama.longest_token_prefix(expected, tokens)
            assert ours[tokens].input_ids[: len(found)].tolist() == list(found)


def test_what_does_not_fit_is_left_out(tmp_path):
    with aquifer.Heap(ram="16M", flash=tmp_path, flash_size="64M") as heap:
        cache = llama.Cache("8M", heap=heap)
        cache[[1]] = state_of([1], 1 << 20)
        cache[[2]] = state_of([2], 20 << 20)
        assert cache.stats()["left_out"] == 1 and same(cache[[1]], state_of([1], 1 << 20))
        with pytest.raises(KeyError):
            cache[[2]]
        # Others fill the heap: the cache makes room of its own states, or leaves states out, and all the same works.
        others = aquifer.Store(heap=heap, full="raise")
        for n in range(100):
            try:
                others[n] = np.random.default_rng(n).bytes(1 << 20)
            except MemoryError:
                break
        for n in range(3, 30):
            cache[[n]] = state_of([n], 3 << 20)
            if (n,) in cache:
                assert same(cache[[n]], state_of([n], 3 << 20))
        others.clear()
        cache[[2]] = state_of([2], 1 << 20)
        assert same(cache[[2]], state_of([2], 1 << 20))
        assert cache.cache_size == cache._store.stats()["bytes"]


def test_threads(heap):
    cache, wrong = llama.Cache("2M", heap=heap), []

    def work(seed):
        chosen = random.Random(seed)
        for _ in range(200):
            tokens = [chosen.randrange(1, 30), seed]
            if chosen.random() < 0.5:
                cache[tokens] = state_of(tokens, 50_000)
                continue
            try:
                found = cache[tokens]
                tokens = found.input_ids[: found.n_tokens].tolist()
                same(found, state_of(tokens, 50_000))
            except KeyError:
                pass
            except AssertionError:
                wrong.append(tokens)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and 0 < cache.cache_size == cache._store.stats()["bytes"] <= 2 << 20


# A model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The path of a model of two layers with random weights, whose tokens are bytes."""
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    path = str(tmp_path_factory.mktemp("model") / "random.gguf")
    weights, writer = np.random.default_rng(5), gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(2 * WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("llama")
    letters = [chr(n) for n in range(32, 32 + VOCABULARY - 3)]
    writer.add_token_list([b"<unk>", b"<s>", b"</s>", *(letter.replace(" ", "\u2581").encode() for letter in letters)])
    writer.add_token_scores([0.0] * VOCABULARY)
    writer.add_token_types([gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL] + [gguf.TokenType.NORMAL] * len(letters))
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)

    def matrix(*shape):
        return weights.standard_normal(shape).astype(np.float32) * 0.3

    writer.add_tensor("token_embd.weight", matrix(VOCABULARY, WIDTH))
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    writer.add_tensor("output.weight", matrix(VOCABULARY, WIDTH))
    for n in range(LAYERS):
        for name, shape in {
            "attn_norm": (WIDTH,), "attn_q": (WIDTH, WIDTH), "attn_k": (WIDTH, WIDTH), "attn_v": (WIDTH, WIDTH), "attn_output": (WIDTH, WIDTH),
            "ffn_norm": (WIDTH,), "ffn_gate": (2 * WIDTH, WIDTH), "ffn_up": (2 * WIDTH, WIDTH), "ffn_down": (WIDTH, 2 * WIDTH),
        }.items():  # fmt: skip
            writer.add_tensor(f"blk.{n}.{name}.weight", np.ones(shape, np.float32) if len(shape) == 1 else matrix(*shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def loaded(model, **options):
    return llama_cpp.Llama(model, n_ctx=CONTEXT, n_batch=64, n_threads=1, verbose=False, seed=1, **options)


PROMPTS = [
    "You are a helper. Session one asks", "You are a helper. Session two asks", "Something else", "You are a helper. Session one asks again",
    "You are", "Something else",
]  # fmt: skip


def completions(model, cache, **options):
    """What a model says to prompts that are different sessions of it."""
    one, said = loaded(model, **options), []
    one.set_cache(cache)
    for prompt in PROMPTS:
        # As if another session had been there meanwhile.
        one.reset()
        said.append(one.create_completion(prompt, max_tokens=12, temperature=0.0)["choices"][0]["text"])
    one.close()
    return said


@needs_llama
@pytest.mark.parametrize("logits_all", [False, True])
def test_completions_are_those_without_a_cache(model, heap, logits_all):
    cache = aquifer.llama.Cache(heap=heap)
    assert isinstance(cache, llama_cpp.llama_cache.BaseLlamaCache)
    expected = completions(model, None, logits_all=logits_all)
    assert completions(model, cache, logits_all=logits_all) == expected and any(expected)
    counts = cache.stats()
    assert counts["hits"] >= 3 and counts["puts"] == len(PROMPTS) and counts["left_out"] == 0
    # Each state of the second run was there before.
    assert completions(model, cache, logits_all=logits_all) == expected
    assert completions(model, LlamaRAMCache(), logits_all=logits_all) == expected


@needs_llama
def test_the_states_are_those_of_its_own_caches(model, heap, tmp_path):
    own, disk, ours = LlamaRAMCache(), LlamaDiskCache(str(tmp_path)), aquifer.llama.Cache(heap=heap)
    one = loaded(model)
    prompts = [one.tokenize(prompt.encode()) for prompt in PROMPTS]
    for tokens in prompts:
        one.reset()
        one.eval(tokens)
        for cache in (own, disk, ours):
            cache[tokens] = one.save_state()
    for tokens in prompts + [prompts[0][:9], prompts[1] + [70, 71], prompts[2][:3] + [99]]:
        assert same(ours[tokens], own[tokens])
        assert (tuple(tokens) in ours) == (tuple(tokens) in own) == (tuple(tokens) in disk)
        one.load_state(ours[tokens])
        assert one.n_tokens == own[tokens].n_tokens
    # LlamaDiskCache forgets what it gives.
    assert same(ours[prompts[0]], disk[prompts[0]])
    one.close()


@needs_llama
def test_a_cache_that_is_smaller_than_the_sessions(model, heap):
    whole = aquifer.llama.Cache(heap=heap)
    expected = completions(model, whole, logits_all=True)
    cache = aquifer.llama.Cache(whole.cache_size // 2, heap=heap)
    assert completions(model, cache, logits_all=True) == expected
    counts = cache.stats()
    assert 0 < counts["bytes"] <= whole.cache_size // 2 and counts["evictions"] >= 1 and counts["left_out"] == 0


def test_the_module_is_imported_when_it_is_asked_for():
    assert aquifer.llama is llama
    with pytest.raises(AttributeError, match="no attribute 'alpaca'"):
        aquifer.alpaca()


@needs_llama
def test_the_example_of_the_document(model, monkeypatch, capsys):
    """Documents that have no model to show are run with one."""
    page = (Path(__file__).parents[3] / "docs/howto/kv-cache.md").read_text()
    (example,) = [block for block in page.split("```python\n")[1:] if "llama_cpp.Llama(" in block.split("```")[0]]
    monkeypatch.setattr(aquifer, "configure", lambda **_options: None)
    monkeypatch.setattr(aquifer._heaps, "_default", None)
    exec(example.split("```")[0].replace("model.gguf", model), {})
    assert "'puts': 2" in capsys.readouterr().out
