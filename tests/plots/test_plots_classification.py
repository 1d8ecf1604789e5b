"""Plots of classifiers show the numbers they were given."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import tfvn

Y = np.array([0, 1, 1, 0])
P = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])


class TestReliabilityDiagram:
    def test_shows_bins_and_the_error(self):
        ax = tfvn.plots.reliability_diagram(Y, P, num_bins=2, min_count=1)
        line = ax.lines[1]
        np.testing.assert_allclose(line.get_xdata(), [0.75])
        np.testing.assert_allclose(line.get_ydata(), [0.75])
        assert line.get_label() == "calibration error 0.000"

    @pytest.mark.parametrize("probabilities", [P, P[:, 1:]], ids=["two", "one column"])
    def test_error_is_that_of_the_metric(self, probabilities):
        metric = tfvn.metrics.ExpectedCalibrationError(num_bins=15)
        metric.update_state(Y, probabilities)
        line = tfvn.plots.reliability_diagram(Y, probabilities).lines[1]
        assert line.get_label() == f"calibration error {float(metric.result()):.3f}"

    def test_connects_only_bins_with_enough_examples(self):
        confidence = np.repeat([0.55, 0.75, 0.95], [30, 3, 20])
        right = np.arange(53) % 2
        y_pred = np.stack([confidence, 1 - confidence], axis=1)
        ax = tfvn.plots.reliability_diagram(1 - right, y_pred, num_bins=10)
        _, line, full, hollow = ax.lines
        np.testing.assert_allclose(line.get_xdata(), [0.55, 0.95])
        expected = [right[:30].mean(), right[33:].mean()]
        np.testing.assert_allclose(line.get_ydata(), expected)
        np.testing.assert_allclose(full.get_xdata(), [0.55, 0.95])
        np.testing.assert_allclose(hollow.get_xdata(), [0.75])
        assert hollow.get_alpha() < 1
        assert hollow.get_fillstyle() == "none"

    def test_strip_shows_the_counts(self):
        ax = tfvn.plots.reliability_diagram(Y, P, num_bins=5)
        (strip,) = ax.child_axes
        filled, outline = strip.patches
        for patch in (filled, outline):
            np.testing.assert_array_equal(patch.get_data().values, [0, 0, 1, 2, 1])
            np.testing.assert_allclose(patch.get_data().edges, np.linspace(0, 1, 6))
        assert strip.get_yscale() == "log"
        # The strip ends below an accuracy of zero.
        assert strip.get_window_extent().y1 < ax.transData.transform((0, 0))[1]
        assert (ax.get_yticks() >= 0).all()

    def test_second_diagram_on_the_same_axes(self, legend):
        ax = tfvn.plots.reliability_diagram(Y, P, name="a")
        again = tfvn.plots.reliability_diagram(1 - Y, P, ax=ax, name="b")
        assert again is ax
        # Each example is in a bin of its own.
        errors = [np.mean([0.1, 0.8, 0.3, 0.4]), np.mean([0.9, 0.2, 0.7, 0.6])]
        assert legend(ax) == [
            "calibrated",
            f"a, calibration error {errors[0]:.3f}",
            f"b, calibration error {errors[1]:.3f}",
        ]
        first, second = (line for line in ax.lines if "error" in line.get_label())
        assert first.get_color() != second.get_color()
        assert first.get_linestyle() != second.get_linestyle()
        assert len(ax.child_axes) == 1

    @pytest.mark.parametrize("min_count", [1, 100], ids=["all sure", "none sure"])
    def test_leaves_the_layout_of_a_figure_alone(self, min_count):
        figure, axes = plt.subplots(2, 2, layout="constrained")
        tfvn.plots.reliability_diagram(Y, P, ax=axes[0, 0], min_count=min_count)
        figure.canvas.draw()
        heights = [ax.get_position().height for ax in axes.flat]
        assert min(heights) > 0.3

    def test_bad_input(self):
        with pytest.raises(ValueError, match="one integer label for each row"):
            tfvn.plots.reliability_diagram(Y[:2], P)
        with pytest.raises(ValueError, match="`num_bins` must be an integer"):
            tfvn.plots.reliability_diagram(Y, P, num_bins=0)
        with pytest.raises(ValueError, match="`min_count` must be an integer"):
            tfvn.plots.reliability_diagram(Y, P, min_count=0)


class TestEntropyHistograms:
    def test_bins_are_common_and_heights_are_shares(self, legend):
        ax = tfvn.plots.entropy_histograms({"a": [0.1, 0.2, 0.6], "b": [2.0]}, 4)
        filled_a, a, _, b = ax.patches
        for patch, shares in ((filled_a, [2 / 3, 1 / 3, 0, 0]), (b, [0, 0, 0, 1])):
            np.testing.assert_allclose(patch.get_data().edges, [0, 0.5, 1, 1.5, 2])
            np.testing.assert_allclose(patch.get_data().values, shares)
        assert a.get_linestyle() != b.get_linestyle()
        assert legend(ax) == ["a", "b"]

    def test_one_example_of_many_is_seen_beside_the_rest(self):
        values = np.append(np.zeros(9999), 1.0)
        ax = tfvn.plots.entropy_histograms({"a": values}, num_bins=2)
        assert ax.get_yscale() == "log"
        ax.figure.canvas.draw()
        low, high = ax.transAxes.transform([(0, 0), (0, 1)])[:, 1]
        last = ax.transData.transform((0.75, 1 / 10_000))[1]
        assert (last - low) / (high - low) > 0.05

    def test_all_zero_and_rounded_below_zero(self):
        ax = tfvn.plots.entropy_histograms({"a": [0.0, -1e-9]}, num_bins=2)
        np.testing.assert_allclose(ax.patches[0].get_data().values, [1, 0])

    @pytest.mark.parametrize("entropies", [{}, {"a": []}, {"a": [1.0], "b": []}])
    def test_bad_input(self, entropies):
        with pytest.raises(ValueError, match="must have entropies"):
            tfvn.plots.entropy_histograms(entropies)

    def test_nan(self):
        with pytest.raises(ValueError, match="`entropies` must be an array of finite"):
            tfvn.plots.entropy_histograms({"a": [np.nan]})


class TestRiskCoverage:
    def test_orders_by_confidence_or_by_scores(self):
        (line,) = tfvn.plots.risk_coverage(Y, P).lines
        np.testing.assert_allclose(line.get_xdata(), [0.25, 0.5, 0.75, 1])
        np.testing.assert_allclose(line.get_ydata(), [0, 1 / 2, 1 / 3, 1 / 4])
        ax = tfvn.plots.risk_coverage(Y, P, scores=[0, 3, 1, 2])
        np.testing.assert_allclose(ax.lines[0].get_ydata(), [0, 0, 0, 1 / 4])
        assert tfvn.plots.risk_coverage(Y, P, ax=ax) is ax

    def test_binary_probabilities_are_those_of_two_classes(self):
        (one,), (two,) = (tfvn.plots.risk_coverage(Y, p).lines for p in (P[:, 1:], P))
        np.testing.assert_allclose(one.get_ydata(), two.get_ydata())

    def test_area_and_name(self, legend):
        area = np.mean([0, 1 / 2, 1 / 3, 1 / 4])
        ax = tfvn.plots.risk_coverage(Y, P, name="net")
        assert legend(ax) == [f"net, area {area:.4f}"]

    def test_bad_input(self):
        with pytest.raises(ValueError, match="3 scores for 4 examples"):
            tfvn.plots.risk_coverage(Y, P, scores=[1, 2, 3])


class TestOneDrawAccuracies:
    def test_histogram_and_marks(self, legend):
        values = np.array([0.90, 0.91, 0.91, 0.94])
        ax = tfvn.plots.one_draw_accuracies(values, 0.96, 0.89, num_bins=4)
        counts, edges = np.histogram(values, 4)
        for patch in ax.patches:
            np.testing.assert_array_equal(patch.get_data().values, counts)
            np.testing.assert_allclose(patch.get_data().edges, edges)
        assert [line.get_xdata()[0] for line in ax.lines] == [0.96, 0.89]
        expected = ["single draws", "ensemble 0.9600", "mean weights 0.8900"]
        assert legend(ax) == expected
        low, high = ax.get_xlim()
        assert low < 0.89
        assert high > 0.96

    def test_a_far_mark_is_an_arrow(self, legend):
        values = [0.980, 0.982, 0.981]
        ax = tfvn.plots.one_draw_accuracies(values, mean_weights=0.1)
        assert not ax.lines
        assert legend(ax) == ["single draws"]
        (arrow,) = ax.texts
        assert arrow.get_text() == "mean weights 0.1000"
        assert arrow.xy[0] < arrow.get_position()[0]
        assert ax.get_xlim()[0] > 0.97

    def test_one_draw_on_given_axes(self):
        _, ax = plt.subplots()
        assert tfvn.plots.one_draw_accuracies([0.5], ax=ax) is ax

    def test_bad_input(self):
        with pytest.raises(ValueError, match="accuracies from 97 to 98"):
            tfvn.plots.one_draw_accuracies([97.0, 98.0])
        with pytest.raises(ValueError, match=r"with 1 axis. Received: accuracies=\[\]"):
            tfvn.plots.one_draw_accuracies([])
        with pytest.raises(ValueError, match="`ensemble` must be"):
            tfvn.plots.one_draw_accuracies([0.5], ensemble=99.2)
        with pytest.raises(ValueError, match="`mean_weights` must be"):
            tfvn.plots.one_draw_accuracies([0.5], mean_weights="0.1")
