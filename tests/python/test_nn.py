"""Layers, losses and initializers against official MLX's numbers, and the behaviour of `Module`."""

import numpy as np
import oxmlx.core as mx
import oxmlx.nn as nn
import pytest
from nn_cases import INITIALIZERS, LAYERS, LOSSES, VALUES, run_initializer, run_layer, run_loss
from oxmlx.utils import tree_flatten, tree_map


def close(found, expected):
    # The signatures sum many values: an absolute part in proportion to the sum of magnitudes.
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-6 * max(1.0, abs(expected[1])))


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name):
    """Initial weights, outputs in both modes and gradients equal those of MLX at the same seed."""
    found = run_layer(name)
    expected = VALUES["layers"][name]
    assert found.keys() == expected.keys()
    for part, numbers in expected.items():
        close(found[part], numbers)


@pytest.mark.parametrize("name", LOSSES)
def test_loss(name):
    close(run_loss(name), VALUES["losses"][name])


@pytest.mark.parametrize("name", INITIALIZERS)
def test_initializer(name):
    close(run_initializer(name), VALUES["initializers"][name])


REPRS = {
    "Linear(3, 4)": "Linear(input_dims=3, output_dims=4, bias=True)",
    "Bilinear(2, 3, 4)": "Bilinear(input1_dims=2, input2_dims=3, output_dims=4, bias=True)",
    "Conv1d(1, 2, 3)": "Conv1d(1, 2, kernel_size=3, stride=1, padding=0, dilation=1, groups=1, bias=True)",
    "Conv2d(2, 4, 3)": "Conv2d(2, 4, kernel_size=(3, 3), stride=(1, 1), padding=(0, 0), "
    "dilation=1, groups=1, bias=True)",
    "Embedding(5, 3)": "Embedding(5, 3)",
    "LayerNorm(4)": "LayerNorm(4, eps=1e-05, affine=True)",
    "RMSNorm(4)": "RMSNorm(4, eps=1e-05)",
    "GroupNorm(2, 4)": "GroupNorm(2, 4, eps=1e-05, affine=True, pytorch_compatible=False)",
    "InstanceNorm(4)": "InstanceNorm(4, eps=1e-05, affine=False)",
    "BatchNorm(4)": "BatchNorm(4, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)",
    "Dropout(0.5)": "Dropout(p=0.5)",
    "MaxPool2d(2)": "MaxPool2d(kernel_size=(2, 2), stride=(2, 2), padding=(0, 0))",
    "GELU()": "GELU()",
    "RoPE(8)": "RoPE(8, traditional=False)",
    "Sequential(nn.Linear(2, 3), nn.relu, nn.Sequential(nn.ReLU()))": "Sequential(\n"
    "  (layers.0): Linear(input_dims=2, output_dims=3, bias=True)\n"
    "  (layers.2): Sequential(\n"
    "    (layers.0): ReLU()\n"
    "  )\n"
    ")",
}


@pytest.mark.parametrize("name", REPRS)
def test_repr(name):
    assert repr(eval(f"nn.{name}")) == REPRS[name]


class Model(nn.Module):
    """Parameters in every place where a module may keep them."""

    def __init__(self):
        super().__init__()
        self.a = mx.ones(2)
        self.l = [nn.Linear(2, 2), mx.ones(3)]
        self.d = {"x": nn.Linear(2, 2), "y": {"z": mx.zeros(1)}}
        self._p = mx.ones(1)
        self.n = None
        self.i = 3

    def __call__(self, x):
        return self.d["x"](self.l[0](x)).sum() * self.a.sum() + self.l[1].sum() + self.d["y"]["z"].sum()


NAMES = ["a", "l.0.weight", "l.0.bias", "l.1", "d.x.weight", "d.x.bias", "d.y.z"]


def names(tree):
    return [name for name, _ in tree_flatten(tree)]


def test_module_tree():
    m = Model()
    assert names(m.parameters()) == NAMES == names(m.trainable_parameters())
    assert list(m) == ["a", "l", "d", "_p"] and m.state is m
    assert m.children() == {"l": [m.l[0], {}], "d": {"x": m.d["x"], "y": {"z": {}}}}
    assert [name for name, _ in m.named_modules()] == ["", "d.x", "l.0"]
    assert m.modules()[0] is m
    assert m.leaf_modules() == {"l": [m.l[0], {}], "d": {"x": m.d["x"], "y": {"z": {}}}}
    assert m.parameters() == m.filter_and_map(nn.Module.valid_parameter_filter)
    shapes = m.filter_and_map(nn.Module.valid_parameter_filter, map_fn=lambda x: x.shape)
    assert shapes["d"] == {"x": {"weight": (2, 2), "bias": (2,)}, "y": {"z": (1,)}}


def test_module_attributes():
    m = Model()
    m.i = mx.zeros(2)
    assert "i" in m and "i" not in m.__dict__
    m.i = 4
    assert "i" not in m and m.i == 4
    with pytest.raises(AttributeError, match="'Model' object has no attribute 'nope'"):
        _ = m.nope
    del m.a
    assert not hasattr(m, "a")
    with pytest.raises(AttributeError):
        del m.nope


def test_update():
    m = Model()
    assert m.update({"a": mx.zeros(2), "d": {"y": {"z": mx.ones(1)}}}) is m
    assert m.a.tolist() == [0, 0] and m.d["y"]["z"].tolist() == [1]
    m.update({"l": [{"bias": mx.ones(2)}]})
    assert m.l[0].bias.tolist() == [1, 1]
    m.update({"q": mx.ones(1)}, strict=False)
    assert "q" not in m


@pytest.mark.parametrize(
    "tree, message",
    [
        ({"q": 1}, 'Module does not have parameter named "q"'),
        ({"a": 3}, "Received invalid type: int"),
        ({"l": 3}, "Received invalid type: int"),
        ({"l": [{}, {}, {}]}, "Received invalid type: dict"),
        ({"a": {"b": 1}}, "Received invalid type: dict"),
        ({"l": {"0": 1}}, 'Module does not have parameter named "0"'),
    ],
    ids=str,
)
def test_update_errors(tree, message):
    with pytest.raises(ValueError, match=message):
        Model().update(tree)


def test_update_modules():
    m = Model()
    new = nn.Linear(1, 1)
    m.update_modules({"l": [new]})
    assert m.l[0] is new
    for tree in ({"a": new}, {"zz": new}, {"d": {"x": 3}}):
        with pytest.raises(ValueError):
            m.update_modules(tree)


def test_freeze():
    m = Model()
    assert names(m.freeze().trainable_parameters()) == []
    m.unfreeze(keys=["a", "weight"])
    assert names(m.trainable_parameters()) == ["a", "l.0.weight", "d.x.weight"]
    m.unfreeze()
    m.freeze(keys="bias")
    assert names(m.trainable_parameters()) == [n for n in NAMES if not n.endswith("bias")]
    m.unfreeze().freeze(recurse=False)
    assert names(m.trainable_parameters()) == ["l.0.weight", "l.0.bias", "d.x.weight", "d.x.bias"]
    with pytest.raises(KeyError):
        m.freeze(keys="nope", strict=True)
    norm = nn.BatchNorm(3)
    assert names(norm.freeze().unfreeze().trainable_parameters()) == ["weight", "bias"]


@pytest.mark.beyond_mlx
def test_running_statistics_stay_frozen_under_a_parent():
    """MLX unfreezes them with the parent, and weight decay then shrinks them."""
    model = nn.Sequential(nn.BatchNorm(3)).freeze().unfreeze()
    assert names(model.trainable_parameters()) == ["layers.0.weight", "layers.0.bias"]


def test_modes_and_dtypes():
    m = Model()
    assert m.training and not m.eval().l[0].training and m.train().d["x"].training
    m.set_dtype(mx.float16)
    assert {v.dtype for _, v in tree_flatten(m.parameters())} == {mx.float16}
    m.b = mx.zeros(1, mx.int32)
    m.set_dtype(mx.float32)
    assert m.b.dtype == mx.int32 and m.a.dtype == mx.float32
    m.apply(lambda x: x + 1, lambda module, key, value: key == "a" and module is m)
    assert m.a.tolist() == [2, 2]
    seen = []
    m.apply_to_modules(lambda name, module: seen.append(name))
    assert seen == ["", "d.x", "l.0"]


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_weights_files(tmp_path, suffix):
    path = str(tmp_path / f"w.{suffix}")
    mx.random.seed(1)
    first = Model()
    first.save_weights(path)
    second = Model()
    second.load_weights(path)
    for (_, a), (_, b) in zip(tree_flatten(first.parameters()), tree_flatten(second.parameters())):
        assert mx.array_equal(a, b)


def test_weights_errors(tmp_path):
    m = nn.Linear(2, 2)
    good = [("weight", mx.ones((2, 2))), ("bias", mx.ones(2))]
    m.load_weights(good)
    assert m.weight.tolist() == [[1, 1], [1, 1]]
    with pytest.raises(ValueError, match=r"Missing 1 parameters: \nbias\."):
        m.load_weights(good[:1])
    with pytest.raises(ValueError, match=r"Received 1 parameters not in model: \nx\."):
        m.load_weights([*good, ("x", mx.ones(1))])
    with pytest.raises(ValueError, match=r"Expected shape \(2, 2\) but received shape \(2, 3\)"):
        m.load_weights([("weight", mx.ones((2, 3))), good[1]])
    m.load_weights([*good[:1], ("x", mx.ones(1))], strict=False)
    with pytest.raises(ValueError, match="Unsupported file extension"):
        m.save_weights(str(tmp_path / "w.bin"))


def test_value_and_grad():
    m = Model()
    before = m.parameters()
    x = mx.ones((3, 2))
    (value, extra), grads = nn.value_and_grad(m, lambda m, x: (m(x), x.shape))(m, x)
    assert extra == (3, 2) and value.shape == ()
    assert names(grads) == NAMES
    direct = mx.grad(lambda p: m.update(p)(x))(before)
    for (_, a), (_, b) in zip(tree_flatten(grads), tree_flatten(direct)):
        assert mx.allclose(a, b)
    m.update(before)
    m.freeze(keys="bias")
    _, grads = nn.value_and_grad(m, lambda m, x: m(x))(m, x)
    assert "l.0.bias" not in names(grads)


def test_the_model_survives_an_error_in_the_loss():
    m = Model()
    before = tree_flatten(m.parameters())

    def fails(m, x):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        nn.value_and_grad(m, fails)(m, mx.ones((1, 2)))
    for (_, a), (_, b) in zip(before, tree_flatten(m.parameters())):
        assert mx.array_equal(a, b)


def test_running_statistics():
    norm = nn.BatchNorm(2, momentum=0.5)
    norm(mx.array([[1.0, 2.0], [3.0, 6.0]]))
    assert norm.running_mean.tolist() == [1, 2]
    frozen = nn.BatchNorm(2).eval()
    frozen(mx.ones((4, 2)))
    assert frozen.running_mean.tolist() == [0, 0]


def test_shape_errors():
    with pytest.raises(ValueError):
        nn.Conv2d(3, 4, 3, groups=2)
    with pytest.raises(ValueError):
        nn.GroupNorm(3, 4)
    with pytest.raises(ValueError):
        nn.MultiHeadAttention(7, 2)
    with pytest.raises(ValueError):
        nn.BatchNorm(4)(mx.ones((4,)))
    for p in (1.0, -0.1):
        with pytest.raises(ValueError):
            nn.Dropout(p)
    with pytest.raises(ValueError):
        nn.losses.mse_loss(mx.ones(2), mx.ones(3))
    with pytest.raises(ValueError):
        nn.losses.cross_entropy(mx.ones((2, 3)), mx.array([0, 1]), reduction="median")


def test_embedding_as_linear_and_masks():
    table = nn.Embedding(6, 4)
    assert mx.allclose(table.as_linear(mx.ones((2, 4))), mx.ones((2, 4)) @ table.weight.T)
    mask = nn.MultiHeadAttention.create_additive_causal_mask(3)
    assert mask[0].tolist() == [0, mx.finfo(mx.float32).min, mx.finfo(mx.float32).min]
    y = nn.MultiHeadAttention(4, 2)(*[mx.random.normal((1, 3, 4))] * 3, mask)
    assert not mx.any(mx.isnan(y)).item()


def test_half_precision_models():
    m = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))
    m.set_dtype(mx.bfloat16)
    loss, grads = nn.value_and_grad(m, lambda m, x: m(x).square().mean())(m, mx.ones((3, 4), mx.bfloat16))
    assert loss.dtype == mx.bfloat16
    assert {g.dtype for _, g in tree_flatten(grads)} == {mx.bfloat16}


def test_models_are_trees():
    m = nn.Linear(2, 2)
    doubled = tree_map(lambda p: p * 2, m)
    assert type(doubled) is dict and mx.allclose(doubled["weight"], m.weight * 2)
    mx.eval(m, m.parameters())
