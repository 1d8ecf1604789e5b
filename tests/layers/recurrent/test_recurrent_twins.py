"""LSTM and GRU without noise are Keras's own, whatever their arguments."""

import harness
import keras
import numpy as np
import pytest
import tensorflow as tf

import tfvn

FACTORS = {
    "kind": ["LSTM", "GRU"],
    "estimator": ["weights", "flipout", "mean"],
    "compiled": ["eager", "graph"],
    "posterior": ["mean_field", "k_tied"],
    "mask": ["none", "right", "middle"],
    "return_sequences": [True, False],
    "return_state": [True, False],
    "go_backwards": [True, False],
    "unroll": [True, False],
    "stateful": [True, False],
    "initial_state": [True, False],
    "zero_output_for_mask": [True, False],
    "dropout": [0.0, 0.4],
    "recurrent_dropout": [0.0, 0.4],
    "implementation": [1, 2],
    "use_bias": [True, False],
    "random_bias": [True, False],
    # `unit_forget_bias` of an LSTM, `reset_after` of a GRU.
    "variant": [True, False],
    "use_cudnn": ["auto", False],
}
INPUTS = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")
STATES = np.random.default_rng(1).normal(size=(2, 2, 5)).astype("float32")
MASKS = {
    "none": None,
    "right": np.array([[1, 1, 1, 0], [1, 1, 1, 1]], "bool"),
    "middle": np.array([[1, 0, 0, 1], [0, 1, 1, 1]], "bool"),
}
# Ours only.
OURS = {"kind", "estimator", "compiled", "posterior", "mask", "initial_state"}
OURS |= {"random_bias", "variant"}


def is_valid(combination):
    """Whether Keras, and so we, take a combination."""
    if combination["random_bias"] and not combination["use_bias"]:
        return False
    # Of several masks for the inputs Keras's attempt at cuDNN makes an error.
    several = combination["implementation"] == 1 and combination["dropout"]
    attempt = combination["use_cudnn"] and not combination["recurrent_dropout"]
    return not (several and attempt)


def combinations():
    """Returns combinations that hold every pair of levels.

    The best of some random ones at a time: the cross product is too large to look at.
    """
    taken = {name: levels[-1] for name, levels in FACTORS.items()}
    taken |= {"use_bias": True}
    generator = np.random.default_rng(0)
    names = [*FACTORS]
    missing = {
        ((a, x), (b, y))
        for i, a in enumerate(names)
        for b in names[i + 1 :]
        for x in FACTORS[a]
        for y in FACTORS[b]
        if is_valid({**taken, "random_bias": False, a: x, b: y})
    }
    chosen = []
    while missing:
        drawn = [
            {
                name: level[generator.integers(len(level))]
                for name, level in FACTORS.items()
            }
            for _ in range(200)
        ]
        best = max(filter(is_valid, drawn), key=lambda c: len(missing & pairs(c)))
        missing -= pairs(best)
        chosen.append(best)
    return chosen


def pairs(combination):
    return set(harness.pairs_of(combination))


def make(combination):
    """Returns a layer without noise and its twin, with the same weights."""
    kind = combination["kind"]
    arguments = {k: v for k, v in combination.items() if k not in OURS}
    arguments["unit_forget_bias" if kind == "LSTM" else "reset_after"] = combination[
        "variant"
    ]
    layer = getattr(tfvn.layers, kind)(
        5,
        posterior=combination["posterior"],
        estimator=combination["estimator"],
        prior=None,
        bias_posterior="mean_field" if combination["random_bias"] else None,
        seed=3,
        **arguments,
    )
    twin = getattr(keras.layers, kind)(5, seed=3, **arguments)
    for built in (layer, twin):
        built.build(INPUTS.shape)
    for variable in layer.variable_groups["scale"]:
        variable.assign(tf.fill(variable.shape, -60.0))
    if layer.has_bias:
        bias = layer.cell.bias_posterior.mean() if combination["random_bias"] else None
        bias = layer.cell.bias if bias is None else bias
        # The twin starts from the same bias.
        np.testing.assert_array_equal(bias, twin.cell.bias)
    weights = means(layer)
    for variable in weights:
        values = np.random.default_rng(len(variable.shape)).normal(size=variable.shape)
        variable.assign(0.5 * values)
    twin.set_weights([w.numpy() for w in weights])
    return layer, twin


def means(layer):
    """Returns the variables that stand where the twin's do."""
    groups = layer.variable_groups
    return [*groups["mean"], *groups["default"]]


def run(layer, variables, combination):
    """Returns outputs, last states and gradients of two calls."""
    mask = MASKS[combination["mask"]]
    count = 2 if combination["kind"] == "LSTM" else 1
    states = list(STATES[:count]) if combination["initial_state"] else None

    def step(inputs):
        with tf.GradientTape() as tape:
            outputs = layer(inputs, initial_state=states, mask=mask, training=True)
            loss = sum(tf.reduce_sum(tf.sin(part)) for part in tf.nest.flatten(outputs))
        return outputs, tape.gradient(loss, variables)

    if combination["compiled"] != "eager":
        step = tf.function(step, jit_compile=combination["compiled"] == "jit")
    found = []
    for _ in range(2):
        generator = layer.cell.seed_generator
        generator.state.assign([3, 0])
        found.append(step(INPUTS))
    return tf.nest.flatten(found)


def short(combination):
    return "-".join(str(level)[:5] for level in combination.values())


def jitted():
    """Returns the same with XLA; all but a few only where there is much time."""
    found = [{**c, "compiled": "jit"} for c in combinations()]
    few = {c["kind"]: index for index, c in enumerate(found)}
    return [
        pytest.param(
            combination,
            id=short(combination),
            marks=[] if index in few.values() else pytest.mark.exhaustive,
        )
        for index, combination in enumerate(found)
    ]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "combination",
    [*(pytest.param(c, id=short(c)) for c in combinations()), *jitted()],
)
def test_without_noise_is_the_twin(combination):
    layer, twin = make(combination)
    ours = run(layer, means(layer), combination)
    theirs = run(twin, twin.trainable_variables, combination)
    for value, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("estimator", ["weights", "flipout"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_with_noise_is_not(kind, estimator):
    combination = {name: levels[-1] for name, levels in FACTORS.items()}
    combination |= {"kind": kind, "estimator": estimator, "compiled": "eager"}
    combination |= {"posterior": "mean_field", "mask": "none"}
    layer, twin = make(combination)
    for variable in layer.variable_groups["scale"]:
        variable.assign(tf.fill(variable.shape, -4.0))
    outputs = layer(INPUTS)
    assert np.mean(np.abs(outputs - twin(INPUTS))) > 1e-3
