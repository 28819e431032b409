"""What `test_nn.py` and `test_optimizers.py` compare with official MLX, apart from the numbers themselves.

Each case is an expression over the names of `nn` or `optim` and the shapes of its inputs. The numbers are in
`mlx_values.json`; official MLX made them from these very cases: `all_values`, with `mlx` in the imports.
"""

import json
from pathlib import Path

import oxmlx.core as mx
import oxmlx.nn as nn
import oxmlx.optimizers as optim
from oxmlx.utils import tree_flatten, tree_map

# Sums of magnitudes and the like of official MLX 0.32.4, CPU: see `signature`.
VALUES = json.loads(Path(__file__).with_name("mlx_values.json").read_text())

X = (3, 6, 8)
IMAGE = (2, 6, 8, 4)

ACTIVATIONS = (
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "HardShrink",
    "Hardswish",
    "HardTanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "ReLU",
    "ReLU2",
    "ReLU6",
    "Sigmoid",
    "SiLU",
    "Softmax",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Step",
    "Tanh",
)

LAYERS = {
    "Linear(8, 4)": [X],
    "Linear(8, 4, bias=False)": [(8,)],
    "Identity(1, a=2)": [X],
    "Bilinear(3, 4, 5)": [(2, 6, 3), (2, 6, 4)],
    "Conv1d(8, 4, 3, padding=1)": [X],
    "Conv2d(4, 6, 3)": [IMAGE],
    "Conv2d(4, 6, (3, 2), stride=(1, 2), padding=(1, 0), dilation=2, groups=2, bias=False)": [IMAGE],
    "Embedding(5, 3)": [],
    "LayerNorm(8)": [X],
    "LayerNorm(8, affine=False)": [X],
    "RMSNorm(8)": [X],
    "GroupNorm(2, 8)": [X],
    "GroupNorm(4, 8, pytorch_compatible=True)": [X],
    "InstanceNorm(8, affine=True)": [X],
    "BatchNorm(8)": [X],
    "BatchNorm(4, affine=False)": [IMAGE],
    "Dropout(0.3)": [X],
    "Dropout2d(0.3)": [IMAGE],
    "Dropout3d(0.3)": [(2, 3, 3, 2, 4)],
    "MaxPool1d(2)": [X],
    "MaxPool2d(2)": [IMAGE],
    "MaxPool2d(3, 2, 1)": [IMAGE],
    "AvgPool2d((2, 3), (1, 2))": [IMAGE],
    "AvgPool2d(3, 2, 1)": [IMAGE],
    "MultiHeadAttention(8, 2)": [X, X, X],
    "MultiHeadAttention(8, 2, 3, 4, 5, 6, 7, bias=True)": [(2, 3, 3), (2, 6, 4), (2, 6, 5)],
    "TransformerEncoder(2, 8, 2, dropout=0.2)": [X, None],
    "TransformerDecoder(1, 8, 2, dropout=0.2)": [X, X, None, None],
    "SinusoidalPositionalEncoding(8)": [(4,)],
    "Upsample(2)": [IMAGE],
    "Upsample((1.5, 0.6))": [IMAGE],
    "Upsample((1.5, 0.6), mode='linear')": [IMAGE],
    "Upsample(2, mode='linear', align_corners=True)": [IMAGE],
    "Upsample((1.5, 0.6), mode='cubic', antialias=True)": [IMAGE],
    "RNN(8, 4)": [X],
    "GRU(8, 4)": [X],
    "LSTM(8, 4)": [X],
    **{f"{name}()": [X] for name in ACTIVATIONS},
    "GELU('tanh')": [X],
    "GELU('fast')": [X],
}

LOSSES = [
    "cross_entropy(a, t)",
    "cross_entropy(a, p)",
    "cross_entropy(a, t, weights=a[:, 0])",
    "cross_entropy(a, t, label_smoothing=0.1, reduction='mean')",
    "cross_entropy(a, p, label_smoothing=0.1)",
    "cross_entropy(a.T, t, axis=0, reduction='sum')",
    "binary_cross_entropy(a, p)",
    "binary_cross_entropy(p, p, with_logits=False)",
    "binary_cross_entropy(a, p, weights=b, reduction='none')",
    "l1_loss(a, b)",
    "mse_loss(a, b, reduction='sum')",
    "nll_loss(a, t)",
    "gaussian_nll_loss(a, b, p, full=True)",
    "kl_div_loss(a, b)",
    "smooth_l1_loss(a, b, beta=0.5, reduction='none')",
    "huber_loss(a, b, delta=0.5)",
    "log_cosh_loss(a, b)",
    "triplet_loss(a, b, p)",
    "hinge_loss(a, mx.sign(b))",
    "cosine_similarity_loss(a, b)",
    "margin_ranking_loss(a, b, mx.sign(p - 0.2), margin=0.2)",
]

INITIALIZERS = [
    "constant(0.3)(z)",
    "normal(1.0, 2.0)(z)",
    "uniform(1.0, 2.0)(z)",
    "identity()(z[:4])",
    "glorot_normal()(z)",
    "glorot_uniform()(z, 2.0)",
    "he_normal()(c, 'fan_out', 2.0)",
    "he_uniform()(c)",
]

OPTIMIZERS = [
    "SGD(0.1)",
    "SGD(0.1, momentum=0.9)",
    "SGD(0.1, momentum=0.9, weight_decay=0.01, dampening=0.1)",
    "SGD(0.1, momentum=0.9, nesterov=True)",
    "RMSprop(0.01)",
    "Adagrad(0.1)",
    "AdaDelta(0.1)",
    "Adam(0.01)",
    "Adam(0.01, bias_correction=True)",
    "AdamW(0.01, weight_decay=0.1)",
    "Adamax(0.01)",
    "Lion(0.01, weight_decay=0.1)",
    "Adafactor()",
    "Adafactor(0.01, relative_step=False, weight_decay=0.1, beta_1=0.9)",
    "Muon(0.02)",
    "Adam(cosine_decay(0.1, 10))",
    "SGD(join_schedules([linear_schedule(0, 0.1, 3), exponential_decay(0.1, 0.9)], [3]))",
    "SGD(step_decay(0.1, 0.5, 2))",
    "MultiOptimizer([SGD(0.1), Adam(0.2)], [lambda name, weight: weight.ndim > 1])",
]


def signature(tree) -> list[float]:
    """A few numbers that change when any element of a tree of arrays does."""
    leaves = sorted(tree_flatten(tree), key=lambda pair: pair[0])
    flat = mx.concatenate([mx.array(v).astype(mx.float32).reshape(-1) for _, v in leaves])
    waves = mx.cos(mx.arange(flat.size) * 0.7)
    return [flat.sum().item(), mx.abs(flat).sum().item(), (flat * waves).sum().item(), flat[0].item()]


def layer_inputs(shapes) -> list:
    """Fixed inputs; None stays None, and no shapes at all means indices."""
    if not shapes:
        return [mx.array([[0, 3], [4, 1]])]
    keys = mx.random.split(mx.random.key(1), len(shapes))
    return [None if s is None else 2 * mx.random.normal(s, key=k) for s, k in zip(shapes, keys)]


def run_layer(name: str) -> dict:
    """Initial parameters, training output, gradients and evaluation output of a layer."""
    mx.random.seed(0)
    layer = eval(name, vars(nn))
    found = {}
    if tree_flatten(layer.parameters()):
        found["parameters"] = signature(layer.parameters())
    inputs = layer_inputs(LAYERS[name])
    found["training"] = signature(layer(*inputs))
    if tree_flatten(layer.trainable_parameters()):

        def loss(layer):
            return sum((v * 1.5).square().mean() for _, v in tree_flatten(layer(*inputs)))

        mx.random.seed(2)
        found["gradients"] = signature(nn.value_and_grad(layer, loss)(layer))
    layer.eval()
    found["evaluation"] = signature(layer(*inputs))
    return found


def run_loss(name: str) -> list[float]:
    """The value of a loss on fixed inputs."""
    a, b, logits = (mx.random.normal((4, 5), key=k) for k in mx.random.split(mx.random.key(3), 3))
    names = {"a": a, "b": b, "p": mx.softmax(logits, axis=-1), "t": mx.array([1, 0, 4, 2]), "mx": mx}
    return signature(eval(name, {**vars(nn.losses), **names}))


def run_initializer(name: str) -> list[float]:
    """The values of an initializer after seed 0."""
    mx.random.seed(0)
    return signature(eval(name, {**vars(nn.init), "z": mx.zeros((6, 4)), "c": mx.zeros((4, 3, 3, 2))}))


def run_optimizer(name: str, dtype=mx.float32) -> dict:
    """Parameters and state after five steps along fixed gradients."""
    optimizer = eval(name, vars(optim))
    keys = mx.random.split(mx.random.key(4), 3)
    parameters = {
        "matrix": mx.random.normal((6, 4), key=keys[0]).astype(dtype),
        "list": [
            {"vector": mx.random.normal((5,), key=keys[1]).astype(dtype)},
            mx.random.normal((3, 2, 4), key=keys[2]).astype(dtype),
        ],
    }
    for i in range(5):
        gradients = tree_map(lambda p, i=i: (p * 0.3 + mx.cos(p * 5.0 + i)).astype(dtype), parameters)
        parameters = optimizer.apply_gradients(gradients, parameters)
    return {"parameters": signature(parameters), "state": signature(optimizer.state)}


def all_values() -> dict:
    """The numbers of every case."""
    return {
        "layers": {name: run_layer(name) for name in LAYERS},
        "losses": {name: run_loss(name) for name in LOSSES},
        "initializers": {name: run_initializer(name) for name in INITIALIZERS},
        "optimizers": {name: run_optimizer(name) for name in OPTIMIZERS},
    }
