"""Plots show the numbers they were given."""

import sys

import matplotlib as mpl
import numpy as np
import pytest

import tfvn

Y = np.array([0, 1, 1, 0])
P = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])


@pytest.fixture(autouse=True)
def _no_window():
    mpl.use("agg")
    yield
    mpl.pyplot.close("all")


def test_reliability_diagram_shows_bins_and_the_error():
    ax = tfvn.plots.reliability_diagram(Y, P, num_bins=2)
    (_, line) = ax.lines
    np.testing.assert_allclose(line.get_xdata(), [0.75])
    np.testing.assert_allclose(line.get_ydata(), [0.75])
    assert line.get_label() == "calibration error 0.000"
    metric = tfvn.metrics.ExpectedCalibrationError(num_bins=15)
    metric.update_state(Y, P)
    line = tfvn.plots.reliability_diagram(Y, P).lines[1]
    assert line.get_label() == f"calibration error {float(metric.result()):.3f}"


def test_binary_probabilities_are_those_of_two_classes():
    metric = tfvn.metrics.ExpectedCalibrationError(num_bins=15)
    metric.update_state(Y, P[:, 1:])
    line = tfvn.plots.reliability_diagram(Y, P[:, 1:]).lines[1]
    assert line.get_label() == f"calibration error {float(metric.result()):.3f}"
    (one,), (two,) = (tfvn.plots.risk_coverage(Y, p).lines for p in (P[:, 1:], P))
    np.testing.assert_allclose(one.get_ydata(), two.get_ydata())


def test_entropy_histograms_share_bins():
    ax = tfvn.plots.entropy_histograms({"a": [0.1, 0.2], "b": [2.0]}, num_bins=4)
    first, second = (ax.patches[:4], ax.patches[4:])
    assert [p.get_x() for p in first] == [p.get_x() for p in second] == [0, 0.5, 1, 1.5]
    assert [p.get_height() for p in first] == [2.0, 0, 0, 0]
    assert [p.get_height() for p in second] == [0, 0, 0, 2.0]


def test_risk_coverage_orders_by_confidence_or_by_scores():
    (line,) = tfvn.plots.risk_coverage(Y, P).lines
    np.testing.assert_allclose(line.get_xdata(), [0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(line.get_ydata(), [0, 1 / 2, 1 / 3, 1 / 4])
    ax = tfvn.plots.risk_coverage(Y, P, scores=[0, 3, 1, 2])
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [0, 0, 0, 1 / 4])
    assert tfvn.plots.risk_coverage(Y, P, ax=ax) is ax


def test_errors_say_what_to_do(monkeypatch):
    with pytest.raises(ValueError, match="one integer label for each row"):
        tfvn.plots.reliability_diagram(Y[:2], P)
    with pytest.raises(ValueError, match="must have entropies"):
        tfvn.plots.entropy_histograms({"a": []})
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"tfvn\[plots\]"):
        tfvn.plots.risk_coverage(Y, P)


def test_regression_band_shows_the_intervals_in_the_order_of_the_inputs():
    outputs = np.random.default_rng(0).normal(size=(4, 3, 2))
    answer = tfvn.PredictiveDistribution.of_draws("normal", outputs)
    x = np.array([3.0, 1.0, 2.0, 0.0])
    ax = tfvn.plots.regression_band(x, answer, y=np.arange(4.0), levels=(0.8,))
    line, points = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), [0, 1, 2, 3])
    np.testing.assert_allclose(line.get_ydata(), answer.mean[[3, 1, 2, 0], 0])
    np.testing.assert_array_equal(points.get_xdata(), x)
    (band,) = ax.collections
    lower, upper = answer.interval(0.8)
    box = band.get_paths()[0].get_extents()
    assert (box.ymin, box.ymax) == pytest.approx((lower.min(), upper.max()))
    assert tfvn.plots.regression_band(x, answer, ax=ax) is ax
    with pytest.raises(ValueError, match="one number for each row"):
        tfvn.plots.regression_band(x[:2], answer)


def test_coverage_shows_shares_of_targets():
    answer = tfvn.PredictiveDistribution.of_draws("normal", np.zeros((4, 3, 2)))
    ax = tfvn.plots.coverage(answer, [0.1, -0.1, 1.0, 5.0], num_levels=3)
    (_, line) = ax.lines
    np.testing.assert_allclose(line.get_xdata(), [0.25, 0.5, 0.75])
    np.testing.assert_allclose(line.get_ydata(), [0.5, 0.5, 0.75])
