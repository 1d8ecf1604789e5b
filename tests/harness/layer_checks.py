"""Checks of a layer on its own: its arguments, its shapes, its variables, its file."""

import inspect
import json
import pathlib
import tempfile

import keras
import numpy as np
import tensorflow as tf

from harness.cases import in_rnn, outputs_from_the_start, own_config, owner
from harness.expected_kl import (
    adds_kl,
    estimates_kl,
    random_parts,
    variables_without_gradient,
)
from harness.twins import twin_arguments, twin_of

# How many trainable variables a posterior has for one kernel.
VARIABLES = {"variance": 1, "mean_field": 2, "gaussian_dropout": 2, "k_tied": 3}


def check_construction(case):
    layer = case.make(name="layer")
    assert layer.name == "layer"
    assert not layer.built
    for name, value in case.init_kwargs.items():
        if name in twin_arguments(case.layer_class):
            # Keras keeps some arguments under other names.
            kept = getattr(layer, name, None)
            wanted = type(kept)(value) if type(kept) in (bool, int, str) else None
            assert wanted is None or kept == wanted
    inputs, _ = case.data()
    in_rnn(layer)(inputs)
    assert layer.built


def check_config(case):
    layer = case.make()
    config = layer.get_config()
    saved = json.loads(json.dumps(config))
    again = case.layer_class.from_config(saved)
    assert again.get_config() == config
    assert again.name == layer.name
    assert type(again.posterior) is type(layer.posterior)
    # Every argument is in the config, those of the twin included.
    parameters = inspect.signature(case.layer_class).parameters
    assert set(parameters) - {"kwargs"} <= set(config) | {"activity_regularizer"}
    serialized = keras.saving.serialize_keras_object(layer)
    assert serialized["registered_name"] == f"tfvn>{case.layer_class.__name__}"
    restored = keras.saving.deserialize_keras_object(serialized)
    assert restored.get_config() == config


def check_shapes(case):
    layer = case.layer()
    inputs, _ = case.data()
    names = twin_arguments(case.layer_class)
    twin = in_rnn(
        twin_of(case.layer_class)(
            **{k: v for k, v in case.init_kwargs.items() if k in names}
        )
    )
    # Keras's transposed convolutions give a list.
    expected = tuple(twin.compute_output_shape(case.input_shape))
    assert tuple(layer.compute_output_shape(case.input_shape)) == expected
    spec = layer.compute_output_spec(keras.KerasTensor(case.input_shape))
    assert (spec.shape, spec.dtype) == (expected, "float32")
    symbolic = layer(keras.Input(batch_shape=(None, *case.input_shape[1:])))
    assert symbolic.shape == (None, *expected[1:])
    outputs = layer(inputs)
    assert tuple(outputs.shape) == expected
    assert outputs.dtype == "float32"
    assert np.all(np.isfinite(outputs))


def check_counts(case):
    layer = case.layer()
    inputs, _ = case.data()
    layer(inputs)
    layer = owner(layer)
    assert len(layer._seed_generators) == 1
    assert len(layer.losses) == int(adds_kl(layer))
    assert layer.non_trainable_weights == []
    aliases = [posterior.alias for posterior, _ in random_parts(layer)]
    if set(aliases) <= set(VARIABLES):
        expected = sum(VARIABLES[alias] for alias in aliases)
        if layer.has_bias and layer.bias_posterior is None:
            expected += 1
        assert len(layer.trainable_weights) == expected
    groups = layer.variable_groups
    grouped = [id(v) for variables in groups.values() for v in variables]
    assert sorted(grouped) == sorted(id(v) for v in layer.trainable_weights)
    if adds_kl(layer) and not estimates_kl(layer):
        (loss,) = layer.losses
        expected = layer.kl_weight.numpy() * layer.kl_divergence().numpy()
        np.testing.assert_allclose(loss, expected, rtol=1e-6)


def check_saving(case):
    model = case.model()
    inputs, _ = case.data()
    layer = model.layers[0]
    for variable in layer.trainable_weights:
        variable.assign(variable + 0.01)
    owner(layer).kl_weight.assign(0.25)
    outputs = outputs_from_the_start(model, inputs)
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "model.keras"
        model.save(path)
        loaded = keras.models.load_model(path)
        np.testing.assert_array_equal(loaded(inputs), outputs)
        assert own_config(loaded.layers[0]) == own_config(layer)
        assert owner(loaded.layers[0]).kl_weight.numpy() == np.float32(0.25)

        path = pathlib.Path(directory) / "model.weights.h5"
        model.save_weights(path)
        other = case.model(type(layer).from_config(layer.get_config()))
        other.load_weights(path)
        np.testing.assert_array_equal(other(inputs), outputs)


def check_gradients(case):
    """Differentiates one call: finite, and to every variable that it should reach."""
    layer = case.make()
    inputs, _ = case.data()
    with tf.GradientTape() as tape:
        outputs = layer(inputs, training=True)
        loss = tf.reduce_sum(tf.square(tf.cast(outputs, "float32") - 5.0))
        loss = tf.add_n([loss, *layer.losses])
    variables = layer.trainable_variables
    gradients = tape.gradient(loss, variables)
    assert np.all(np.isfinite(outputs))
    assert len(layer.losses) == adds_kl(layer)
    untrained = {id(v) for v in variables_without_gradient(layer)}
    for variable, gradient in zip(variables, gradients, strict=True):
        gradient = np.zeros(()) if gradient is None else gradient.numpy()
        assert np.all(np.isfinite(gradient)), variable.path
        assert np.any(gradient != 0) == (id(variable) not in untrained), variable.path
    config = layer.get_config()
    assert type(layer).from_config(config).get_config() == config
