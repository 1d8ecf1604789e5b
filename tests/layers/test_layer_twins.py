"""Layers against their Keras twins: arguments, shapes, and what the means give."""

import harness
import keras
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from layer_cases import LAYERS

import tfvn

QUICK = settings(max_examples=25, deadline=None, derandomize=True)


class TestTwinArguments:
    @pytest.mark.parametrize("name", ["Dense", "MeanFieldDense"])
    def test_dense_takes_each(self, name):
        layer = LAYERS[name](
            3,
            "relu",
            kernel_initializer="ones",
            bias_initializer=keras.initializers.Constant(2.0),
            kernel_regularizer=keras.regularizers.L2(0.5),
            bias_regularizer=keras.regularizers.L1(0.25),
            activity_regularizer=keras.regularizers.L1(1.0),
            kernel_constraint="non_neg",
            bias_constraint="unit_norm",
            prior=None,
            estimator="mean",
            trainable=True,
            name="named",
        )
        outputs = layer(np.ones((1, 4), "float32"))
        np.testing.assert_allclose(outputs, np.full((1, 3), 6.0))
        # Activity, kernel and bias, in this order of size.
        losses = sorted(float(loss) for loss in layer.losses)
        np.testing.assert_allclose(losses, [0.25 * 6, 0.5 * 12, 18.0])
        mean, bias = layer.variable_groups["mean"][0], layer.bias
        assert isinstance(mean.constraint, keras.constraints.NonNeg)
        assert isinstance(bias.constraint, keras.constraints.UnitNorm)
        assert layer.name == "named"

    def test_variance_layer_starts_from_its_kernel_initializer(self):
        layer = tfvn.VarianceDense(3, kernel_initializer="ones")
        layer.build((None, 2))
        stddev = layer.posterior_distribution().stddev()
        np.testing.assert_array_equal(stddev, np.ones((2, 3)))

    def test_no_layer_trains_when_frozen(self):
        layer = tfvn.MeanFieldDense(3, trainable=False)
        layer.build((None, 2))
        assert layer.trainable_weights == []
        assert len(layer.non_trainable_weights) == 3


@QUICK
@given(
    shape=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    units=st.integers(1, 5),
    use_bias=st.booleans(),
    bias_posterior=st.sampled_from([None, "mean_field"]),
    activation=st.sampled_from([None, "relu", "tanh"]),
)
def test_dense_of_means_is_the_twin(shape, units, use_bias, bias_posterior, activation):
    layer = tfvn.MeanFieldDense(
        units,
        activation=activation,
        use_bias=use_bias,
        bias_initializer="normal",
        bias_posterior=bias_posterior if use_bias else None,
        estimator="mean",
        kl_weight=1.0,
    )
    inputs = np.random.default_rng(0).normal(size=shape).astype("float32")
    outputs = layer(inputs)
    assert outputs.shape == (*shape[:-1], units)
    twin = harness.make_twin(layer, inputs.shape)
    np.testing.assert_allclose(outputs, twin(inputs), rtol=1e-5, atol=1e-6)


@QUICK
@given(
    shape=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    label=st.sampled_from(harness.posterior_labels()),
    estimator=st.sampled_from([*tfvn.support.ESTIMATORS]),
)
def test_dense_shapes(shape, label, estimator):
    layer = tfvn.layers.Dense(
        3, posterior=harness.make_posterior(label), estimator=estimator, prior=None
    )
    outputs = layer(np.ones(shape, "float32"))
    assert outputs.shape == (*shape[:-1], 3)
    assert outputs.shape == layer.compute_output_shape(tuple(shape))
    assert layer.posterior_distribution().batch_shape == (shape[-1], 3)


@QUICK
@given(
    size=st.tuples(st.integers(3, 6), st.integers(3, 6)),
    kernel_size=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    strides=st.integers(1, 3),
    dilation_rate=st.integers(1, 2),
    padding=st.sampled_from(["valid", "same"]),
    groups=st.sampled_from([1, 2]),
    use_bias=st.booleans(),
    estimator=st.sampled_from([*tfvn.support.ESTIMATORS]),
)
def test_convolution_against_the_twin(size, estimator, **arguments):
    kernel_size, rate = arguments["kernel_size"], arguments["dilation_rate"]
    # What Keras refuses: both at once, and windows larger than the inputs.
    assume(arguments["strides"] == 1 or rate == 1)
    extents = [(k - 1) * rate + 1 for k in kernel_size]
    assume(all(e <= s for e, s in zip(extents, size, strict=True)))
    layer = tfvn.MeanFieldConv2D(
        4, bias_initializer="normal", estimator=estimator, prior=None, **arguments
    )
    inputs = np.random.default_rng(0).normal(size=(2, *size, 4)).astype("float32")
    outputs = layer(inputs)
    twin = harness.make_twin(layer, inputs.shape)
    expected = twin(inputs)
    assert outputs.shape == expected.shape == layer.compute_output_shape(inputs.shape)
    kernel_shape = (*kernel_size, 4 // arguments["groups"], 4)
    assert layer.posterior_distribution().batch_shape == kernel_shape
    # The standard deviations are 0.01, so that the noise is small beside the means.
    tolerance = 1e-4 if estimator == "mean" else 1.0
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=tolerance)
