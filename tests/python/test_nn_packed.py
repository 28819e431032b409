"""Layers whose weights are packed or cut: quantized ones, and sharded ones in a group of one process."""

import oxmlx.core as mx
import oxmlx.nn as nn
import pytest
from oxmlx.utils import tree_flatten

pytestmark = pytest.mark.skipif(not hasattr(mx, "quantize"), reason="this build has no quantized ops")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(16, 64)
        self.layers = [nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 32, bias=False)]

    def __call__(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize("group_size, bits, limit", [(64, 8, 0.02), (32, 4, 0.3)])
def test_quantize_model(group_size, bits, limit):
    mx.random.seed(0)
    model = Model()
    tokens = mx.array([[1, 5, 2]])
    expected = model(tokens)
    nn.quantize(model, group_size=group_size, bits=bits)
    assert isinstance(model.embedding, nn.QuantizedEmbedding)
    assert [type(layer).__name__ for layer in model.layers] == ["QuantizedLinear", "GELU", "QuantizedLinear"]
    assert mx.abs(model(tokens) - expected).max().item() < limit
    assert tree_flatten(model.trainable_parameters()) == []


def test_quantize_by_predicate():
    model = Model()
    nn.quantize(model, class_predicate=lambda path, m: {"bits": 8} if path == "layers.0" else False)
    assert model.layers[0].bits == 8 and isinstance(model.layers[2], nn.Linear)
    with pytest.raises(ValueError):
        nn.quantize(Model(), class_predicate=lambda path, m: True)


def test_quantized_layers_print_and_stay_frozen():
    layer = nn.Linear(64, 32).to_quantized()
    expected = "QuantizedLinear(input_dims=64, output_dims=32, bias=True, group_size=64, bits=4, mode=affine)"
    assert repr(layer) == expected
    assert tree_flatten(layer.unfreeze().trainable_parameters()) == []
    table = nn.Embedding(8, 64).to_quantized(bits=8)
    assert table(mx.array([1, 2])).shape == (2, 64) and table.as_linear(mx.ones((1, 64))).shape == (1, 8)


@pytest.mark.skipif(not hasattr(mx, "distributed"), reason="this build has no process groups")
@pytest.mark.parametrize("sharding", ["all-to-sharded", "sharded-to-all"])
@pytest.mark.parametrize("quantized", [False, True])
def test_sharding_in_one_process(sharding, quantized):
    """With one process a sharded layer is the layer itself."""
    from oxmlx.nn.layers.distributed import shard_inplace, shard_linear

    layer = nn.Linear(64, 64)
    layer = layer.to_quantized() if quantized else layer
    sharded = shard_linear(layer, sharding)
    x = mx.random.normal((2, 64))
    assert mx.allclose(sharded(x), layer(x), atol=1e-5)
    before = layer.weight
    shard_inplace(layer, sharding)
    assert mx.array_equal(layer.weight, before)
    with pytest.raises(ValueError):
        shard_linear(layer, "sideways")
