"""Plots of activations show densities and points of each class."""

import keras
import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats

import tfvn

STD = np.array([[0.5, 1.0], [0.7, 1.0], [2.0, 1.0], [3.0, 1.0], [2.5, 1.0]])
LABELS = np.array(["small", "small", "large", "large", "large"])


class TestEnergyLevels:
    def test_lines_are_averages_and_areas_their_deviations(self, legend):
        ax = tfvn.plots.energy_levels(STD, LABELS)
        assert legend(ax) == ["large", "small"]
        for line, band, rows in zip(
            ax.lines, ax.collections, ([2, 3, 4], [0, 1]), strict=True
        ):
            x = line.get_xdata()
            densities = stats.norm.pdf(x, 0.0, STD[rows, :1])
            mean, deviation = densities.mean(axis=0), densities.std(axis=0)
            np.testing.assert_allclose(line.get_ydata(), mean)
            box = band.get_paths()[0].get_extents()
            assert box.ymax == pytest.approx((mean + deviation).max())
        # Three deviations of the widest class.
        assert ax.get_xlim() == pytest.approx((-7.5, 7.5))

    def test_neuron(self):
        ax = tfvn.plots.energy_levels(STD, LABELS, neuron=1)
        first, second = ax.lines
        np.testing.assert_allclose(first.get_ydata(), second.get_ydata())
        assert ax.get_xlabel() == "activation of neuron 1"

    def test_scales_of_a_hidden_layer(self):
        layer = tfvn.VarianceDense(2)
        model = keras.Sequential([keras.Input((3,)), layer, keras.layers.Dense(2)])
        hidden = keras.Model(model.inputs, layer.output)
        x = np.random.default_rng(0).normal(size=(6, 3)).astype("float32")
        answer = tfvn.ensemble_predict(hidden, x, 50, outputs="regression")
        ax = tfvn.plots.energy_levels(answer.std, [0, 0, 0, 1, 1, 1])
        assert len(ax.lines) == 2

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (
                (STD[:, 0], LABELS),
                "`std` must be an array of finite numbers with 2 axes",
            ),
            ((STD, LABELS[:2]), "one class for each of 5 examples"),
            ((STD, LABELS, 2), "`neuron` must be below 2"),
            ((STD, LABELS, -1), "`neuron` must be an integer of at least 0"),
            ((STD - 0.5, LABELS), "a smallest value of 0"),
        ],
    )
    def test_bad_input(self, arguments, text):
        with pytest.raises(ValueError, match=text):
            tfvn.plots.energy_levels(*arguments)


class TestToyScatter:
    x = np.array([[3.0, 3.0], [3.0, 10.0], [4.0, 3.0]])
    labels = np.array([0, 1, 0])

    def test_data_alone(self, legend):
        ax = tfvn.plots.toy_scatter(self.x, self.labels)
        zero, one = ax.collections
        np.testing.assert_array_equal(zero.get_offsets(), self.x[[0, 2]])
        np.testing.assert_array_equal(one.get_offsets(), self.x[[1]])
        assert legend(ax) == ["class 0", "class 1"]
        assert not np.array_equal(
            zero.get_paths()[0].vertices, one.get_paths()[0].vertices
        )

    def test_activations_in_a_second_panel(self):
        activations = -self.x
        axes = tfvn.plots.toy_scatter(self.x, self.labels, activations)
        assert [ax.get_xlabel() for ax in axes] == ["input 1", "neuron 1"]
        np.testing.assert_array_equal(
            axes[1].collections[0].get_offsets(), activations[[0, 2]]
        )
        _, given = plt.subplots(1, 2)
        returned = tfvn.plots.toy_scatter(self.x, self.labels, activations, given)
        assert list(returned) == list(given)

    def test_compact_points_are_above_those_that_spread(self):
        x = np.array([[0.0, 0.0], [0.1, 0.0], [-9.0, 9.0], [9.0, -9.0]])
        compact, wide = tfvn.plots.toy_scatter(x, [0, 0, 1, 1]).collections
        assert compact.get_zorder() > wide.get_zorder()

    def test_bad_input(self):
        with pytest.raises(ValueError, match="`x` must have two columns"):
            tfvn.plots.toy_scatter(np.ones((3, 3)), self.labels)
        with pytest.raises(ValueError, match="2 rows for 3"):
            tfvn.plots.toy_scatter(self.x, self.labels, self.x[:2])
        with pytest.raises(ValueError, match="`ax` must have 2 matplotlib `Axes`"):
            tfvn.plots.toy_scatter(self.x, self.labels, self.x, plt.subplots()[1])
