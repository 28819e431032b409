"""Random numbers: the bits are those of MLX, so a seed means the same draw in both."""

import math

import numpy as np
import oxmlx.core as mx
import pytest


def words(x):
    return [f"{v:08x}" for v in np.array(x.view(mx.uint32)).reshape(-1)]


def test_keys_and_split():
    assert mx.random.key(0).tolist() == [0, 0]
    assert mx.random.key(2**32 + 5).tolist() == [1, 5]
    assert mx.random.split(mx.random.key(0)).tolist() == [[4146024105, 967050713], [2718843009, 1272950319]]
    assert mx.random.split(mx.random.key(0), 3).tolist() == [
        [2467461003, 428148500],
        [3186719485, 3840466878],
        [2562233961, 1946702221],
    ]


def threefry(key, count):
    """Threefry-2x32 with 20 rounds (Salmon et al., 2011), written from the paper."""
    mask = 0xFFFFFFFF
    k = [key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDA]
    a, b = (count[0] + k[0]) & mask, (count[1] + k[1]) & mask
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            a = (a + b) & mask
            b = ((b << turn) | (b >> (32 - turn))) & mask
            b ^= a
        a = (a + k[(group + 1) % 3]) & mask
        b = (b + k[(group + 2) % 3] + group + 1) & mask
    return a, b


def random_words(key, n):
    half, odd = n // 2, n % 2
    out = [0] * n
    for i in range(half):
        out[i], out[i + half + odd] = threefry(key, (i, i + half + odd))
    if odd:
        out[half] = threefry(key, (half, 0))[0]
    return np.array(out, np.uint32)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 64, 1001])
@pytest.mark.parametrize("seed", [0, 7, 2**40 + 3])
def test_uniform_is_exact(seed, n):
    """uniform = words / (2^32 - 1) in float32, kept below one."""
    key = mx.random.key(seed)
    expected = random_words(key.tolist(), n).astype(np.float32) / np.float32(2**32 - 1)
    expected = np.minimum(expected, np.nextafter(np.float32(1), np.float32(0)))
    np.testing.assert_array_equal(np.array(mx.random.uniform(shape=(n,), key=key)), expected)


def test_uniform_known_bits():
    key = mx.random.key(0)
    assert words(mx.random.uniform(shape=(4,), key=key)) == ["3f771f4f", "3e669017", "3f220e41", "3e97bf5c"]
    half = mx.random.uniform(shape=(4,), dtype=mx.float16, key=key).view(mx.uint16).tolist()
    assert half == [0x3BB9, 0x3335, 0x3910, 0x34BE]


def close_words(x, expected, ulps=4):
    found = np.array(x.view(mx.int32)).reshape(-1).astype(np.int64)
    wanted = np.array([int(w, 16) for w in expected], np.uint32).view(np.int32).astype(np.int64)
    assert np.abs(found - wanted).max() <= ulps


def test_float_distributions():
    """Within 4 units in the last place of MLX's values on the same bits."""
    key = mx.random.key(0)
    close_words(mx.random.normal((4,), key=key), ["3fe8758b", "bf414021", "3eae05f7", "bf08eaf8"])
    close_words(mx.random.gumbel((4,), key=key), ["405604bf", "becc7fc7", "3f48555a", "be4859a6"], 16)
    close_words(mx.random.laplace((4,), key=key), ["c02ac884", "3f4c3cb1", "be9e6040", "3f05e0ab"], 16)
    truncated = mx.random.truncated_normal(-1.0, 1.0, (4,), key=key)
    close_words(truncated, ["3f6811c9", "befa716c", "3e6b2967", "beb62c85"], 16)
    half = mx.random.normal((4,), dtype=mx.bfloat16, key=key)
    assert half.tolist() == [1.8125, -0.7578125, 0.33984375, -0.53515625]


def test_discrete_distributions():
    key = mx.random.key(0)
    assert mx.random.bernoulli(0.5, (8,), key=key).astype(mx.int32).tolist() == [0, 1, 1, 0, 1, 0, 1, 0]
    assert mx.random.randint(0, 10, (4,), key=key).tolist() == [9, 2, 6, 2]
    assert mx.random.categorical(mx.zeros((2, 3)), key=key).tolist() == [2, 0]
    assert mx.random.categorical(mx.zeros((2, 3)), key=key).dtype == mx.uint32


def test_global_state():
    mx.random.seed(0)
    np.testing.assert_allclose(
        np.array(mx.random.normal((4,))), [1.1378784, -0.14331418, -0.59153634, 0.7946625], rtol=2e-6
    )
    mx.random.seed(0)
    np.testing.assert_array_equal(
        np.array(mx.random.uniform(shape=(4,))), np.float32([0.87241435, 0.443021, 0.27708054, 0.78659505])
    )
    mx.random.seed(42)
    np.testing.assert_array_equal(
        np.array(mx.random.uniform(shape=(4,))), np.float32([0.28517026, 0.81209177, 0.17565258, 0.92841893])
    )


def test_state_is_consumed_and_restored():
    mx.random.seed(3)
    first, second = mx.random.uniform(shape=(2,)), mx.random.uniform(shape=(2,))
    assert first.tolist() != second.tolist()
    mx.random.seed(3)
    assert mx.random.uniform(shape=(2,)).tolist() == first.tolist()
    assert len(mx.random.state) == 1 and mx.random.state[0].shape == (2,)


def test_compiled_draws_differ_only_with_state():
    fixed = mx.compile(lambda: mx.random.uniform(shape=(3,)))
    assert fixed().tolist() == fixed().tolist()
    drawing = mx.compile(
        lambda: mx.random.uniform(shape=(3,)), inputs=mx.random.state, outputs=mx.random.state
    )
    assert drawing().tolist() != drawing().tolist()


def test_shapes_and_bounds():
    x = mx.random.uniform(-2, 3, (1000,))
    assert x.min().item() >= -2 and x.max().item() < 3
    low = mx.array([[0.0], [10.0]])
    y = mx.random.uniform(low, low + 1, (2, 5))
    assert y[0].max().item() < 1 and y[1].min().item() >= 10
    assert mx.random.normal(()).shape == () and mx.random.normal((0, 3)).shape == (0, 3)
    z = mx.random.normal((20_000,), loc=2.0, scale=3.0)
    assert abs(z.mean().item() - 2) < 0.1 and abs(z.std().item() - 3) < 0.1
    assert mx.random.bernoulli(mx.array([0.0, 1.0]), (50, 2)).sum(0).tolist() == [0, 50]


def test_moments_of_categorical():
    logits = mx.log(mx.array([0.1, 0.2, 0.7]))
    draws = mx.random.categorical(logits, num_samples=20_000)
    share = [(draws == i).astype(mx.float32).mean().item() for i in range(3)]
    assert all(math.isclose(s, p, abs_tol=0.02) for s, p in zip(share, (0.1, 0.2, 0.7)))


def test_errors():
    with pytest.raises(TypeError):
        mx.random.key(-1)
    with pytest.raises(ValueError):
        mx.random.uniform(shape=(2,), dtype=mx.int32)
    with pytest.raises(ValueError):
        mx.random.randint(0, 5, (2,), dtype=mx.float32)
