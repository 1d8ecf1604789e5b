"""Inputs and uses that are easy to get wrong without noticing."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfvn


@pytest.mark.parametrize("estimator", ["local", "flipout", "weights", "mean"])
def test_integer_inputs(estimator):
    layer = tfvn.MeanFieldDense(
        3, estimator=estimator, kernel_initializer="ones", scale_initializer=1e-6
    )
    outputs = layer(tf.ones((2, 4), tf.int32))
    assert outputs.dtype == "float32"
    np.testing.assert_allclose(outputs, np.full((2, 3), 4.0), rtol=1e-3)


def test_sparse_inputs():
    inputs = np.random.default_rng(0).normal(size=(3, 4)) * np.eye(3, 4)
    inputs = inputs.astype("float32")
    layer = tfvn.MeanFieldDense(2, estimator="mean")
    sparse = layer(tf.sparse.from_dense(inputs))
    np.testing.assert_allclose(sparse, layer(inputs), rtol=1e-6)


@pytest.mark.parametrize("family", ["MeanField", "Variance"])
def test_divergence_of_equals_is_zero(family):
    scale = float(np.sqrt(2 / 500))
    options = {"scale_initializer": scale, "kernel_initializer": "zeros"}
    if family == "Variance":
        options = {"kernel_initializer": keras.initializers.Constant(scale)}
    layer = getattr(tfvn, f"{family}Dense")(500, prior="normal", **options)
    layer.build((None, 500))
    # Sums of a quarter of a million that cancel would leave whole nats.
    assert abs(float(layer.kl_divergence())) < 0.1


@pytest.mark.parametrize("prior", ["log_uniform", "horseshoe", "student_t"])
def test_weight_of_zero_at_a_pole(prior):
    layer = tfvn.GaussianDropoutDense(
        3, prior=prior, kl_method="monte_carlo", kernel_initializer="zeros"
    )
    layer.build((None, 4))
    with tf.GradientTape() as tape:
        divergence = layer.kl_divergence()
    variables = [v.value for v in layer.trainable_variables]
    gradients = tape.gradient(divergence, variables, unconnected_gradients="zero")
    assert np.isfinite(divergence)
    assert all(np.all(np.isfinite(gradient)) for gradient in gradients)


def test_vanishing_factors_of_a_k_tied_layer():
    layer = tfvn.KTiedDense(3, kl_weight=1.0)
    layer.build((None, 4))
    for variable in layer.variable_groups["scale"]:
        variable.assign(np.full(variable.shape, -60.0))
    with tf.GradientTape() as tape:
        divergence = layer.kl_divergence()
    gradients = tape.gradient(
        divergence, [v.value for v in layer.trainable_variables[:3]]
    )
    assert np.isfinite(divergence)
    assert all(np.all(np.isfinite(gradient)) for gradient in gradients)


@pytest.mark.parametrize("estimator", ["local", "flipout", "weights", "mean"])
def test_sparse_inputs_in_any_order(estimator):
    layer = tfvn.MeanFieldDense(2, estimator=estimator, kl_weight=1.0, seed=1)
    indices, values = [[1, 0], [0, 2], [0, 1]], [1.0, 2.0, 3.0]
    dense = np.zeros((2, 3), "float32")
    dense[tuple(np.transpose(indices))] = values
    layer.build(dense.shape)
    outputs = []
    for inputs in (tf.SparseTensor(indices, values, dense.shape), dense):
        layer.seed_generator.state.assign([1, 0])
        outputs.append(layer(inputs).numpy())
    np.testing.assert_allclose(*outputs, rtol=1e-5)


def test_subclass_with_arguments_of_its_own():
    class Fixed(tfvn.layers.Dense):
        def __init__(self, scale):
            super().__init__(7, "relu", bool(scale), "ones")
            self.factor = scale

    layer = Fixed(2.0)
    assert layer(np.ones((2, 4), "float32")).shape == (2, 7)
    np.testing.assert_array_equal(layer.posterior.mean(), np.ones((4, 7)))


@pytest.mark.parametrize("family", ["MeanField", "KTied", "GaussianDropout"])
def test_part_of_the_posterior_distribution(family):
    layer = getattr(tfvn, f"{family}Dense")(3)
    layer.build((None, 4))
    whole = layer.posterior_distribution()
    part = whole[1]
    np.testing.assert_allclose(part.mean(), whole.mean()[1])
    np.testing.assert_allclose(part.stddev(), whole.stddev()[1])


def test_copy_of_a_posterior_distribution_has_its_new_scale():
    layer = tfvn.MeanFieldDense(3)
    layer.build((None, 4))
    copy = layer.posterior_distribution().copy(log_variance=np.zeros((4, 3), "float32"))
    np.testing.assert_allclose(copy.stddev(), np.ones((4, 3)))


def test_einsum_that_sums_an_axis_without_the_kernel():
    with pytest.raises(ValueError, match=r"The axes \['b'\].*Received: equation"):
        tfvn.layers.EinsumDense("abc,cd->ad", output_shape=3)


def test_posterior_of_a_bias_that_is_not_there():
    with pytest.raises(ValueError, match=r"for a layer without a bias.*Received"):
        tfvn.MeanFieldDense(3, use_bias=False, bias_posterior="mean_field")


def test_quantized_policy():
    with pytest.raises(ValueError, match=r"can't be quantized.*Received"):
        tfvn.VarianceDense(3, dtype="int8_from_float32")


def test_loaded_weights_leave_the_weight_of_the_kl_alone(tmp_path):
    saved, layer = (tfvn.MeanFieldDense(3, kl_weight=w) for w in (0.1, 0.2))
    for one in (saved, layer):
        one.build((None, 4))
    first, second = (
        keras.Sequential([keras.Input((4,)), one]) for one in (saved, layer)
    )
    first.save_weights(tmp_path / "first.weights.h5")
    second.load_weights(tmp_path / "first.weights.h5")
    assert layer.kl_weight.numpy() == np.float32(0.2)
    np.testing.assert_array_equal(layer.get_weights()[0], saved.get_weights()[0])
