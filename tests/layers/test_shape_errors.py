"""Inputs, priors and ranks that do not fit the shapes of a layer."""

import keras
import numpy as np
import pytest
from refusals import LAYERS, refuse
from tensorflow_probability import distributions as tfd

import tfvn


@pytest.fixture(params=LAYERS)
def build(request):
    """Makes a generic layer and builds it, of each kind in turn."""
    layer_class, arguments, input_shape = LAYERS[request.param]

    def run(**kwargs):
        layer_class(*arguments, **kwargs).build(input_shape)

    return run


class TestInputs:
    @pytest.mark.parametrize(
        ("name", "shape", "ndim"),
        [("Dense", (4,), 2), ("Conv2D", (8, 8, 2), 4), ("Conv2D", (2, 4), 4)],
    )
    def test_rank(self, name, shape, ndim):
        layer_class, arguments, _ = LAYERS[name]
        layer = layer_class(*arguments, kl_weight=1.0)
        # The sentence is Keras's own.
        with pytest.raises(ValueError, match=rf"min_ndim={ndim}.*found ndim"):
            layer(np.ones(shape, "float32"))

    @pytest.mark.parametrize("name", LAYERS)
    def test_other_width_than_it_was_built_for(self, name):
        layer_class, arguments, shape = LAYERS[name]
        layer = layer_class(*arguments, kl_weight=1.0)
        layer.build(shape)
        with pytest.raises(ValueError, match=r"expected axis -1 .* value \d"):
            layer(np.ones((1, *shape[1:-1], 7), "float32"))

    def test_undefined_last_dimension(self):
        refuse(
            "last dimension of the inputs to `Dense` must be defined",
            lambda: tfvn.layers.Dense(3).build((None, None)),
        )

    @pytest.mark.parametrize("data_format", ["channels_first", "channels_last"])
    def test_undefined_channels(self, data_format):
        layer = tfvn.layers.Conv2D(3, 3, data_format=data_format)
        refuse(
            "channel dimension of the inputs to `Conv2D` must be defined",
            lambda: layer.build((None, None, None, None)),
        )

    def test_undefined_in_a_model(self):
        with pytest.raises(ValueError, match="must be defined"):
            tfvn.layers.Dense(3)(keras.Input((None,)))

    def test_groups_do_not_divide_the_channels(self):
        layer = tfvn.layers.Conv2D(4, 3, groups=2)
        refuse("divisible by `groups`", lambda: layer.build((None, 8, 8, 3)))

    def test_groups_do_not_divide_the_filters(self):
        with pytest.raises(ValueError, match="divisible by the number of groups"):
            tfvn.layers.Conv2D(3, 3, groups=2)

    def test_window_larger_than_the_inputs(self):
        with pytest.raises(ValueError, match="output size would be zero"):
            tfvn.layers.Conv2D(3, 5).build((None, 4, 4, 1))

    @pytest.mark.parametrize("units", [0, -1, 2.5, None])
    def test_units(self, units):
        with pytest.raises(ValueError, match=r"`units`.*Received: units="):
            tfvn.layers.Dense(units)


class TestPrior:
    @pytest.mark.parametrize("shape", [(5,), (6, 1), (1, 1, 1, 1, 1)])
    def test_does_not_broadcast(self, build, shape):
        message = refuse(
            "must broadcast to the kernel's shape",
            lambda: build(prior=tfd.Normal(np.zeros(shape, "float32"), 1.0)),
        )
        assert f"prior.batch_shape={shape}" in message

    @pytest.mark.parametrize(
        "prior",
        [
            tfd.MultivariateNormalDiag([0.0, 0.0, 0.0]),
            tfd.Independent(tfd.Normal(np.zeros((4, 3), "float32"), 1.0)),
        ],
    )
    def test_event_shape(self, build, prior):
        refuse("over one weight or a batch", lambda: build(prior=prior))

    def test_bias_prior_does_not_broadcast(self, build):
        refuse(
            "must broadcast",
            lambda: build(
                bias_posterior="mean_field",
                bias_prior=tfd.Normal(np.zeros(7, "float32"), 1.0),
            ),
        )

    @pytest.mark.parametrize("shape", [(), (3,), (4, 1), (1, 3), (4, 3)])
    def test_what_broadcasts_is_taken(self, shape):
        prior = tfd.Normal(np.zeros(shape, "float32"), 1.0)
        layer = tfvn.layers.Dense(3, prior=prior, kl_weight=1.0)
        layer.build((None, 4))
        scalar = tfvn.layers.Dense(3, prior=tfd.Normal(0.0, 1.0), kl_weight=1.0)
        scalar.build((None, 4))
        scalar.set_weights(layer.get_weights())
        np.testing.assert_allclose(
            layer.kl_divergence(), scalar.kl_divergence(), rtol=1e-6
        )


class TestKTied:
    @pytest.mark.parametrize("rank", [0, -1, 1.5, 2.0, "2", True])
    def test_rank_is_no_positive_integer(self, rank):
        refuse(
            "`rank` must be `None` or an integer of at least 1",
            lambda: tfvn.KTiedDense(3, rank=rank),
        )

    @pytest.mark.parametrize(
        ("layer", "shape", "largest"),
        [
            (tfvn.KTiedDense(3, rank=4), (None, 5), 3),
            (tfvn.KTiedDense(5, rank=4), (None, 3), 3),
            (tfvn.KTiedConv2D(8, 2, groups=2, rank=9), (None, 4, 4, 4), 8),
            (tfvn.KTiedConv2DTranspose(2, 3, rank=3), (None, 4, 4, 4), 2),
            (tfvn.KTiedDepthwiseConv2D(2, rank=5), (None, 4, 4, 6), 4),
            (tfvn.KTiedEinsumDense("ab,bc->ac", 2, rank=3), (None, 4), 2),
        ],
    )
    def test_rank_is_too_large(self, layer, shape, largest):
        message = refuse(
            f"`rank` must be at most {largest}", lambda: layer.build(shape)
        )
        assert f"Received: rank={layer.posterior.rank}" in message


class TestEinsumDense:
    @pytest.mark.parametrize("equation", ["ab,b->a", "abc,bc->abc", "...x,x->..."])
    @pytest.mark.parametrize("family", ["Variance", "MeanField", "KTied"])
    def test_no_axis_of_the_output_alone(self, family, equation):
        layer_class = getattr(tfvn, f"{family}EinsumDense")
        message = refuse(
            "must have an axis that the output has",
            lambda: layer_class(equation, output_shape=(None,)),
        )
        assert f"Received: equation={equation!r}" in message

    def test_bias_on_an_axis_of_no_size(self):
        layer = tfvn.MeanFieldEinsumDense("abc,cd->abd", (None, 4), bias_axes="bd")
        refuse(
            "`bias_axes` must name axes of the output that have a defined size",
            lambda: layer.build((None, None, 3)),
        )
