"""Checks of a layer in a model: each trains or uses it in another way."""

import contextlib
import functools
import tempfile

import keras
import numpy as np
import pytest
import tensorflow as tf

from harness.cases import outputs_from_the_start, owner, reset_noise
from harness.expected_kl import adds_kl, estimates_kl, variables_without_gradient

# Where a layer is trained. The first ones are cheap enough for every combination.
REGIMES = ("graph", "jit", "mixed_float16", "mixed_bfloat16")
ALL_REGIMES = (*REGIMES, "eager", "styles", "export", "mirrored")

STEPS = 8


def make_optimizer():
    # Bounded steps: the gradient of a prior with a pole at zero has heavy tails.
    return keras.optimizers.Adam(0.02)


def check_training(case, **compile_options):
    """Fits a model and returns its stochastic layer."""
    model = case.model()
    layer = model.layers[0]
    inputs, targets = case.data()
    compile_options.setdefault("optimizer", make_optimizer())
    model.compile(loss="mse", metrics=["mse"], **compile_options)
    # Else the step is traced twice, as its first trace creates variables, and TensorFlow
    # never frees that trace.
    model.optimizer.build(model.trainable_variables)
    variables = layer.trainable_variables
    before = [v.numpy() for v in variables]
    untrained = {id(v) for v in variables_without_gradient(owner(layer))}
    warned = pytest.warns(UserWarning, match="Gradients do not exist")
    train = functools.partial(
        model.fit, inputs, targets, batch_size=len(inputs), verbose=0
    )
    reset_noise(layer)
    with warned if untrained else contextlib.nullcontext():
        history = train(epochs=STEPS).history
    assert np.all(np.isfinite(history["loss"]))
    # The first step again, with the noise that it had, which would hide what was gained. Not
    # by the loss: a KL that is estimated from one sample makes it rise and fall.
    reset_noise(layer)
    assert train(epochs=1).history["mse"][0] < history["mse"][0]
    for variable, value in zip(variables, before, strict=True):
        assert np.all(np.isfinite(variable))
        changed = bool(np.any(variable.numpy() != value))
        assert changed == (id(variable) not in untrained), variable.path
    return owner(layer)


def check_graph(case):
    check_training(case, jit_compile=False)


def check_jit(case):
    check_training(case, jit_compile=True)


def check_eager(case):
    check_training(case, run_eagerly=True)


def check_mixed_precision(case, policy):
    half = policy.removeprefix("mixed_")
    previous = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        layer = case.layer()
        inputs, _ = case.data()
        assert layer(keras.Input(case.input_shape[1:])).dtype == half
        outputs = layer(inputs)
        assert outputs.dtype == half
        assert np.all(np.isfinite(tf.cast(outputs, "float32")))
        optimizer = make_optimizer()
        if half == "float16":
            # Small, so that no step is left out for an overflow.
            optimizer = keras.optimizers.LossScaleOptimizer(
                optimizer, initial_scale=16.0
            )
        trained = check_training(case, optimizer=optimizer, jit_compile=False)
    finally:
        keras.config.set_dtype_policy(previous)
    layer = owner(layer)
    assert {v.dtype for v in layer.weights + trained.weights} == {"float32"}
    assert layer.kl_divergence().dtype == "float32"
    assert all(loss.dtype == "float32" for loss in layer.losses)
    assert len(layer.losses) == int(adds_kl(layer))


def check_styles(case):
    """Sequential, functional and subclassed models give and learn the same."""
    inputs, targets = case.data()
    reference = case.model()
    original = reference.layers[0]

    def make_layers():
        stochastic = type(original).from_config(original.get_config())
        return [stochastic, keras.layers.Flatten(), keras.layers.Dense(1)]

    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.blocks = make_layers()

        def call(self, inputs):
            for block in self.blocks:
                inputs = block(inputs)
            return inputs

    start = outputs = keras.Input(case.input_shape[1:])
    for block in make_layers():
        outputs = block(outputs)
    models = [
        keras.Sequential([keras.Input(case.input_shape[1:]), *make_layers()]),
        keras.Model(start, outputs),
        Subclassed(),
    ]
    weights = reference.get_weights()
    expected = outputs_from_the_start(reference, inputs)
    trained = []
    for model in models:
        model(inputs)
        model.set_weights(weights)
        np.testing.assert_array_equal(outputs_from_the_start(model, inputs), expected)
        model.compile(keras.optimizers.SGD(0.01), "mse", jit_compile=False)
        reset_noise(model)
        model.fit(inputs, targets, batch_size=len(inputs), epochs=2, verbose=0)
        trained.append(model.get_weights())
    for values in trained[1:]:
        for value, first in zip(values, trained[0], strict=True):
            np.testing.assert_allclose(value, first, rtol=1e-4, atol=1e-6)


def check_export(case):
    model = case.model()
    inputs, _ = case.data()
    with tempfile.TemporaryDirectory() as directory:
        model.export(directory, verbose=False)
        served = tf.saved_model.load(directory)
        first, second = served.serve(inputs).numpy(), served.serve(inputs).numpy()
        smaller = served.serve(inputs[:1])
    expected = model(inputs)
    assert first.shape == tuple(expected.shape)
    assert smaller.shape == (1, *expected.shape[1:])
    assert np.all(np.isfinite(first))
    if owner(model.layers[0]).estimator.alias == "mean":
        np.testing.assert_allclose(first, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(first, second)
    else:
        assert np.any(first != second)


def check_mirrored(case):
    """On two replicas noise differs, and the KL counts once and not twice."""
    strategy = two_replicas()
    inputs, targets = case.data()
    with strategy.scope():
        model = case.model()
        layer = model.layers[0]
        # Without a likelihood, only the KL is left to learn from.
        model.compile(keras.optimizers.SGD(0.1), no_likelihood, jit_compile=False)

    first, second = strategy.run(tf.function(layer), args=(inputs,)).values
    layer = owner(layer)
    if layer.estimator.alias == "mean":
        np.testing.assert_array_equal(first, second)
    else:
        assert np.mean(first.numpy() == second.numpy()) < 0.5

    before = [v.numpy() for v in layer.trainable_variables]
    with tf.GradientTape() as tape:
        kl = layer.kl_weight.value * layer.kl_divergence()
    variables = [v.value for v in layer.trainable_variables]
    gradients = tape.gradient(kl, variables, unconnected_gradients="zero")
    history = model.fit(inputs, targets, batch_size=len(inputs), verbose=0)
    if estimates_kl(layer):
        assert np.isfinite(history.history["loss"][0])
        return
    np.testing.assert_allclose(history.history["loss"][0], kl, rtol=1e-5)
    for variable, value, gradient in zip(
        layer.trainable_variables, before, gradients, strict=True
    ):
        expected = value - 0.1 * gradient.numpy()
        np.testing.assert_allclose(variable, expected, rtol=1e-5, atol=1e-6)


REGIME_CHECKS = {
    "graph": check_graph,
    "jit": check_jit,
    "eager": check_eager,
    "mixed_float16": lambda case: check_mixed_precision(case, "mixed_float16"),
    "mixed_bfloat16": lambda case: check_mixed_precision(case, "mixed_bfloat16"),
    "styles": check_styles,
    "export": check_export,
    "mirrored": check_mirrored,
}


@functools.cache
def two_replicas():
    """Returns a strategy that splits each batch between two logical CPUs."""
    # Collective reductions of two strategies in one process get mixed up.
    return tf.distribute.MirroredStrategy(
        ["CPU:0", "CPU:1"], cross_device_ops=tf.distribute.ReductionToOneDevice()
    )


def no_likelihood(targets, outputs):
    """A loss that is zero, with a gradient of zero."""
    return 0.0 * keras.ops.sum(keras.ops.square(outputs - targets), axis=-1)
