"""Plots of scales show singular values and matrices as they are."""

import keras
import matplotlib.pyplot as plt
import numpy as np
import pytest

import tfvn

SHARES = {"scale": np.array([0.9, 0.08, 0.02]), "mean": np.array([0.5, 0.3, 0.2])}


class TestExplainedVariance:
    def test_shows_the_first_shares(self, legend):
        ax = tfvn.plots.explained_variance(SHARES, num_components=2)
        scale, mean = ax.lines
        np.testing.assert_array_equal(scale.get_xdata(), [1, 2])
        np.testing.assert_array_equal(scale.get_ydata(), [0.9, 0.08])
        np.testing.assert_array_equal(mean.get_ydata(), [0.5, 0.3])
        assert legend(ax) == ["scale", "mean"]

    def test_several_layers(self, legend):
        ax = tfvn.plots.explained_variance({"a": SHARES, "b": SHARES})
        assert legend(ax) == ["a, scale", "a, mean", "b, scale", "b, mean"]
        assert len({line.get_color() for line in ax.lines}) == 4

    @pytest.mark.parametrize(
        ("fractions", "text"),
        [
            ({}, "must be a dictionary"),
            ([0.9, 0.1], "fractions=list"),
            ({"scale": [90.0, 10.0]}, "shares from 10 to 90 for 'scale'"),
            ({"scale": [np.nan]}, "must be an array of finite numbers"),
        ],
    )
    def test_bad_input(self, fractions, text):
        with pytest.raises(ValueError, match=text):
            tfvn.plots.explained_variance(fractions)


class TestScaleHeatMap:
    def shown(self, ax):
        return np.asarray(ax.images[0].get_array())

    def test_dense_layer(self):
        layer = tfvn.KTiedDense(3, rank=2)
        layer.build((None, 4))
        shown = self.shown(tfvn.plots.scale_heat_map(layer))
        expected = layer.posterior_distribution().stddev().numpy()
        np.testing.assert_allclose(shown, expected, rtol=1e-5)

    def test_convolution_is_a_matrix_with_a_column_for_each_filter(self):
        layer = tfvn.MeanFieldConv2D(5, (3, 2))
        layer.build((None, 8, 8, 4))
        layer.posterior.variable_groups["scale"][0].assign(
            np.random.default_rng(0).normal(-2.0, 1.0, (3, 2, 4, 5))
        )
        shown = self.shown(tfvn.plots.scale_heat_map(layer))
        expected = layer.posterior_distribution().stddev().numpy().reshape(24, 5)
        np.testing.assert_allclose(shown, expected, rtol=1e-5)

    def test_shared_scales_and_other_axes_of_the_output(self):
        # Columns of a depthwise kernel are its channels, the last two axes.
        layer = tfvn.GaussianDropoutDepthwiseConv2D(2, alpha="layer")
        layer.build((None, 8, 8, 3))
        shown = self.shown(tfvn.plots.scale_heat_map(layer))
        expected = layer.posterior_distribution().stddev().numpy().reshape(4, 3)
        np.testing.assert_allclose(shown, expected, rtol=1e-5)

    def test_recurrent_layer(self):
        layer = tfvn.MeanFieldLSTM(2)
        layer.build((None, 7, 3))
        ax = tfvn.plots.scale_heat_map(layer, "recurrent_kernel")
        assert self.shown(ax).shape == (2, 8)

    def test_layers_with_one_such_layer_inside(self):
        wrapper = keras.layers.TimeDistributed(tfvn.MeanFieldDense(2))
        wrapper.build((None, 7, 3))
        head = tfvn.layers.NormalHead(1, posterior="mean_field")
        head.build((None, 3))
        for layer in (wrapper, head):
            assert self.shown(tfvn.plots.scale_heat_map(layer)).shape == (3, 2)

    def test_matrix_on_given_axes(self):
        _, ax = plt.subplots()
        matrix = np.arange(6.0).reshape(2, 3)
        assert tfvn.plots.scale_heat_map(matrix, ax=ax) is ax
        np.testing.assert_array_equal(self.shown(ax), matrix)

    def test_bad_input(self):
        with pytest.raises(ValueError, match="build"):
            tfvn.plots.scale_heat_map(tfvn.KTiedDense(3))
        layer = tfvn.KTiedDense(3)
        layer.build((None, 4))
        with pytest.raises(
            ValueError, match="`weight` must be the name of a random weight"
        ):
            tfvn.plots.scale_heat_map(layer, "recurrent_kernel")
        with pytest.raises(ValueError, match="`layer` must be an array of finite"):
            tfvn.plots.scale_heat_map(np.ones(3))
        with pytest.raises(
            ValueError, match=r"one layer with random weights.*of type Dense"
        ):
            tfvn.plots.scale_heat_map(keras.layers.Dense(3))
        with pytest.raises(ValueError, match="Received: layer=str"):
            tfvn.plots.scale_heat_map("dense")
