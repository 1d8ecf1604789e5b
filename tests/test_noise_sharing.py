"""Which outputs share their noise: of examples, of positions and of calls."""

import numpy as np
import pytest
from layer_moments import (
    DRAWS,
    EVERY_OP,
    LINEAR_OPS,
    POSTERIORS,
    draw,
    draw_by_tiling,
    make_any,
    make_inputs,
    make_layer,
    output_moments,
    twin_moments,
    weight_moments,
)
from ztests import assert_mean, assert_uncorrelated

import tfvn


class TestFlipout:
    @pytest.mark.one_in(2)
    @pytest.mark.parametrize("op", EVERY_OP)
    def test_is_uncorrelated_between_examples(self, op):
        layer = make_any(op, "mean_field", "flipout")
        x = np.random.default_rng(7).normal(size=(1, *EVERY_OP[op][1]))
        x = x.astype("float32").repeat(2, axis=0)
        assert_mean(self.products(layer, x, count=4_000), 0.0)
        # Not so where they share their weights.
        layer.estimator = tfvn.estimators.get("weights")
        with pytest.raises(AssertionError, match="The mean of element"):
            assert_mean(self.products(layer, x, count=400), 0.0)

    def products(self, layer, x, count):
        """Returns the noise of two examples, multiplied.

        The examples are not independent, so the error of a correlation is not that
        of independent ones: it is taken from the products.
        """
        samples = draw(layer, x, count=count, jit_compile=False)
        mean, _ = twin_moments(layer, x)
        return np.prod(samples - mean, axis=1)

    @pytest.mark.parametrize("posterior", POSTERIORS)
    def test_examples_share_one_perturbation_up_to_signs(self, posterior):
        layer = make_layer("dense", posterior, "flipout")
        layer.bias.assign(np.zeros(3))
        # Each example sees one row of the kernel.
        x = np.eye(5, dtype="float32").repeat(50, axis=0)
        mean, _ = weight_moments(layer.posterior)
        noise = (layer(x).numpy() - x @ mean).reshape(5, 50, 3)
        np.testing.assert_allclose(
            np.abs(noise), np.abs(noise[:, :1]).repeat(50, axis=1), rtol=1e-3, atol=1e-5
        )
        signs = np.sign(noise)
        assert np.all(np.abs(signs.mean(axis=1)) < 0.75)

    @pytest.mark.parametrize(
        ("make", "shape"),
        [
            (lambda **k: tfvn.layers.Dense(3, **k), (6, 4)),
            (lambda **k: tfvn.layers.EinsumDense("...d,dh->...h", 3, **k), (2, 3, 4)),
            (lambda **k: tfvn.layers.Conv1D(3, 2, **k), (7, 4)),
            (lambda **k: tfvn.layers.Conv2D(4, 2, groups=2, **k), (4, 5, 4)),
            (lambda **k: tfvn.layers.Conv3D(3, 2, **k), (3, 4, 3, 2)),
            # As wide as its strides: each pixel gives one pixel, of any phase.
            (lambda **k: tfvn.layers.Conv2DTranspose(3, 1, **k), (3, 4, 4)),
            (lambda **k: tfvn.layers.DepthwiseConv2D(2, **k), (4, 5, 3)),
        ],
    )
    def test_one_example_has_one_kernel_at_all_positions(self, make, shape):
        options = {"posterior": "mean_field", "prior": None}
        # The same at all positions, so that only the kernel can differ.
        x = np.random.default_rng(1).normal(size=(5, shape[-1])).astype("float32")
        x = np.broadcast_to(x.reshape(5, *[1] * (len(shape) - 1), -1), (5, *shape))
        outputs = make(estimator="flipout", **options)(x).numpy()
        outputs = outputs.reshape(5, -1, outputs.shape[-1])
        np.testing.assert_allclose(
            outputs, outputs[:, :1].repeat(outputs.shape[1], axis=1), atol=1e-5
        )
        independent = make(estimator="local", **options)(x).numpy()
        independent = independent.reshape(outputs.shape)
        assert np.abs(independent - independent[:, :1]).max() > 1e-3

    def test_a_term_sees_its_own_signs_on_every_call(self):
        layer = make_layer("dense", "mean_field", "flipout")
        x = make_inputs("dense")
        assert np.all(layer(x) != layer(x))


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("op", LINEAR_OPS)
def test_mean_estimator_has_no_noise(op, posterior):
    layer = make_layer(op, posterior, "mean", bias_posterior="mean_field")
    x = make_inputs(op)
    mean, _ = output_moments(op, layer, x)
    np.testing.assert_allclose(layer(x), mean, atol=1e-5)
    np.testing.assert_array_equal(layer(x), layer(x))


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("op", LINEAR_OPS)
def test_local_noise_is_independent_between_examples(op, posterior):
    layer = make_layer(op, posterior, "local", bias_posterior="mean_field")
    x = make_inputs(op, count=1).repeat(2, axis=0)
    samples = draw_by_tiling(layer, x)
    assert_uncorrelated(samples[:, 0], samples[:, 1])
    # Also between the first and the second half of a batch.
    assert_uncorrelated(samples[: DRAWS // 2], samples[DRAWS // 2 :])


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("op", LINEAR_OPS)
def test_sampled_weights_are_shared_between_examples(op, posterior):
    layer = make_layer(op, posterior, "weights", bias_posterior="mean_field")
    x = make_inputs(op, count=1).repeat(3, axis=0)
    first, again = layer(x).numpy(), layer(x).numpy()
    np.testing.assert_allclose(first, first[:1].repeat(3, axis=0), rtol=1e-6)
    assert np.all(first != again)


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_sampled_weights_make_a_linear_function(posterior):
    layer = make_layer("dense", posterior, "weights", bias_posterior="mean_field")
    a, b = make_inputs("dense")
    outputs = layer(np.stack([a, b, a + b, np.zeros_like(a)])).numpy()
    np.testing.assert_allclose(
        outputs[0] + outputs[1], outputs[2] + outputs[3], atol=1e-5
    )


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_consecutive_draws_are_independent(posterior):
    layer, x = make_layer("dense", posterior, "weights"), make_inputs("dense")
    samples = draw(layer, x)
    assert_uncorrelated(samples[:-1], samples[1:])
