"""Plots of predicted numbers show the intervals and how many targets are within."""

import numpy as np
import pytest

import tfvn


class TestRegressionBand:
    def test_shows_the_intervals_in_the_order_of_the_inputs(self, legend):
        outputs = np.random.default_rng(0).normal(size=(4, 3, 2))
        answer = tfvn.PredictiveDistribution.of_draws("normal", outputs)
        x = np.array([3.0, 1.0, 2.0, 0.0])
        ax = tfvn.plots.regression_band(x, answer, y=np.arange(4.0), levels=(0.8,))
        line, points = ax.lines
        np.testing.assert_array_equal(line.get_xdata(), [0, 1, 2, 3])
        np.testing.assert_allclose(line.get_ydata(), answer.mean[[3, 1, 2, 0], 0])
        np.testing.assert_array_equal(points.get_xdata(), x)
        np.testing.assert_array_equal(points.get_ydata(), np.arange(4.0))
        (band,) = ax.collections
        lower, upper = answer.interval(0.8)
        box = band.get_paths()[0].get_extents()
        assert (box.ymin, box.ymax) == pytest.approx((lower.min(), upper.max()))
        assert legend(ax) == ["80 %", "mean", "targets"]
        assert tfvn.plots.regression_band(x, answer, ax=ax) is ax

    def test_bands_have_the_shade_that_the_legend_shows(self, legend):
        answer = tfvn.PredictiveDistribution.of_draws("normal", np.zeros((4, 3, 2)))
        ax = tfvn.plots.regression_band(np.arange(4), answer, levels=(0.9, 0.5))
        assert legend(ax) == ["90 %", "50 %", "mean"]
        wide, narrow, _ = ax.get_legend().legend_handles
        # The narrow band lies upon the wide one.
        assert wide.get_alpha() == pytest.approx(0.25)
        assert narrow.get_alpha() == pytest.approx(1 - 0.75**2)

    def test_bad_input(self):
        answer = tfvn.PredictiveDistribution.of_draws("normal", np.zeros((4, 3, 2)))
        with pytest.raises(ValueError, match="one number for each row"):
            tfvn.plots.regression_band([0.0, 1.0], answer)
        with pytest.raises(ValueError, match=r"y of shape \(2,\) for 4 rows"):
            tfvn.plots.regression_band(np.arange(4), answer, y=[0, 1])
        with pytest.raises(ValueError, match="`levels` must be a finite number"):
            tfvn.plots.regression_band(np.arange(4), answer, levels=[90])


class TestCoverage:
    def test_shows_shares_of_targets(self, legend):
        answer = tfvn.PredictiveDistribution.of_draws("normal", np.zeros((4, 3, 2)))
        ax = tfvn.plots.coverage(answer, [0.1, -0.1, 1.0, -5.0], num_levels=3)
        (_, line) = ax.lines
        np.testing.assert_allclose(line.get_xdata(), [0.25, 0.5, 0.75])
        np.testing.assert_allclose(line.get_ydata(), [0.5, 0.5, 0.75])
        assert legend(ax) == ["calibrated", f"average error {0.25 / 3:.3f}"]

    def test_second_curve_on_the_same_axes(self, legend):
        answer = tfvn.PredictiveDistribution.of_draws("normal", np.zeros((1, 3, 2)))
        ax = tfvn.plots.coverage(answer, [0.0], name="a", num_levels=1)
        tfvn.plots.coverage(answer, [9.0], ax, name="b", num_levels=1)
        expected = ["calibrated", "a, average error 0.500", "b, average error 0.500"]
        assert legend(ax) == expected
        assert len({line.get_color() for line in ax.lines}) == 3

    def test_bad_input(self):
        answer = tfvn.PredictiveDistribution.of_draws("normal", np.zeros((1, 3, 2)))
        with pytest.raises(ValueError, match="`num_levels` must be an integer"):
            tfvn.plots.coverage(answer, [0.0], num_levels=0)
