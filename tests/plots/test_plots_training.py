"""Plots of logs: over the epochs, with small quantities beside large ones."""

import types

import keras
import numpy as np
import pytest

import tfvn

LOGS = {"nll": [2.0, 1.0, 0.5], "kl": [300.0, 200.0, 90.0], "elbo": [-2.3, -1.2, -0.6]}


def data(line):
    return np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist()


class TestTrainingCurves:
    def test_shows_nll_and_negative_elbo_and_the_kl_below(self, legend):
        ax = tfvn.plots.training_curves(LOGS)
        nll, elbo = ax.lines
        assert data(nll) == ([1, 2, 3], [2.0, 1.0, 0.5])
        assert data(elbo) == ([1, 2, 3], [2.3, 1.2, 0.6])
        (strip,) = ax.child_axes
        (kl,) = strip.lines
        assert data(kl) == ([1, 2, 3], [300.0, 200.0, 90.0])
        assert legend(ax) == ["NLL", "negative ELBO"]
        ax.figure.canvas.draw()
        # All curves are above the strip.
        assert strip.get_window_extent().y1 < ax.transData.transform((1, 0.5))[1]

    def test_with_validation(self, legend):
        logs = {**LOGS, "val_nll": [3.0, 2.0, 1.0], "val_elbo": [-3.3, -2.2, -1.1]}
        ax = tfvn.plots.training_curves({**logs, "val_kl": LOGS["kl"]})
        assert data(ax.lines[2])[1] == [3.0, 2.0, 1.0]
        assert data(ax.lines[3])[1] == [3.3, 2.2, 1.1]
        assert legend(ax)[2:] == ["NLL, validation", "negative ELBO, validation"]
        assert len(ax.child_axes[0].lines) == 1
        ax = tfvn.plots.training_curves({**logs, "val_kl": [1.0, 2.0, 3.0]})
        assert data(ax.child_axes[0].lines[1])[1] == [1.0, 2.0, 3.0]
        # All lines differ, in grey too.
        lines = [*ax.lines, *ax.child_axes[0].lines]
        assert len({str(line.get_linestyle()) for line in lines}) >= 4

    def test_history_of_a_model(self):
        model = tfvn.Sequential([keras.Input((2,)), tfvn.MeanFieldDense(1)])
        model.compile("sgd", "mse")
        x, y = np.ones((8, 2), "float32"), np.ones((8, 1), "float32")
        history = model.fit(x, y, epochs=2, validation_data=(x, y), verbose=0)
        ax = tfvn.plots.training_curves(history)
        assert data(ax.lines[0])[1] == pytest.approx(history.history["nll"])
        assert len(ax.lines) == 4
        assert len(ax.child_axes) == 1

    def test_without_kl_there_is_no_strip_and_nan_is_a_gap(self):
        ax = tfvn.plots.training_curves({"nll": [1.0, np.nan, 2.0]})
        assert not ax.child_axes
        assert np.isnan(ax.lines[0].get_ydata()[1])

    def test_one_epoch_on_given_axes(self):
        ax = tfvn.plots.training_curves({"nll": [1.0], "kl": [5.0]})
        assert ax.lines[0].get_marker() == "."
        assert [tick for tick in ax.get_xticks() if 0.5 <= tick <= 1.5] == [1]
        assert tfvn.plots.training_curves(LOGS, ax) is ax
        assert ax.get_xlim()[1] > 3
        assert len(ax.child_axes) == 1

    def test_bad_input(self):
        with pytest.raises(ValueError, match=r"`nll` or `elbo`.*with \['loss'\]"):
            tfvn.plots.training_curves({"loss": [1.0]})
        with pytest.raises(ValueError, match=r"what `fit` returns.*history=list"):
            tfvn.plots.training_curves([1.0, 2.0])


TRANSITION = {
    "accuracy_mean": [0.9, 0.5, 0.1],
    "accuracy_one_sample": [0.8, 0.8, 0.9],
    "accuracy_ensemble": [0.9, 0.9, 0.95],
    "accuracy_zero_mean": [0.1, 0.4, 0.95],
    "log_alpha_noisy": [-3.0, 1.0, 5.0],
}


class TestPhaseTransition:
    def test_shows_accuracies_and_log_alpha(self, legend):
        ax = tfvn.plots.phase_transition(TRANSITION)
        shown = {line.get_label(): data(line)[1] for line in ax.lines}
        assert shown == {
            "mean weights": [0.9, 0.5, 0.1],
            "one sample": [0.8, 0.8, 0.9],
            "ensemble": [0.9, 0.9, 0.95],
            "ensemble, means set to zero": [0.1, 0.4, 0.95],
        }
        assert legend(ax) == list(shown)
        (strip,) = ax.child_axes
        assert data(strip.lines[0]) == ([1, 2, 3], [-3.0, 1.0, 5.0])

    def test_several_layers_are_named(self, legend):
        ax = tfvn.plots.phase_transition({**TRANSITION, "log_alpha_b": [0.0, 1.0, 2.0]})
        assert legend(ax)[4:] == ["log alpha, noisy", "log alpha, b"]
        assert len(ax.child_axes[0].lines) == 2

    def test_logs_of_the_callback(self):
        layer = tfvn.GaussianDropoutDense(3, activation="softmax", name="last")
        model = tfvn.Sequential([keras.Input((4,)), layer])
        model.compile("adam", "sparse_categorical_crossentropy")
        x, y = np.ones((8, 4), "float32"), np.ones(8)
        watch = tfvn.callbacks.PhaseTransition((x, y), num_samples=2)
        history = model.fit(x, y, callbacks=[watch], verbose=0)
        ax = tfvn.plots.phase_transition(history)
        assert len(ax.lines) == 4
        assert data(ax.child_axes[0].lines[0])[1] == history.history["log_alpha_last"]

    def test_without_log_alpha(self):
        ax = tfvn.plots.phase_transition({"accuracy_mean": [0.5, 0.4]})
        assert not ax.child_axes

    def test_bad_input(self):
        with pytest.raises(ValueError, match="`accuracy_mean` or other logs"):
            tfvn.plots.phase_transition(LOGS)


def ratios(layer, median, mean, paper):
    """Returns what `GradientSNR` logs for a layer."""
    logs = {"": mean, "median_": median, "pooled_": [5.0, 5.0], "paper_": paper}
    return {f"snr_{kind}{layer}": values for kind, values in logs.items()}


FIRST = {**ratios("a", [3.0, 2.0], [2e7, 1e7], [9.0, 8.0]), "loss": [1.0, 1.0]}
SECOND = ratios("a", [4.0, np.nan], [4e7, np.nan], [7.0, 6.0])


class TestGradientSNR:
    # The mean is dominated by inert weights, and can reverse a comparison.
    def test_one_run_by_the_median(self, legend):
        ax = tfvn.plots.gradient_snr(FIRST)
        assert data(ax.lines[0]) == ([1, 2], [3.0, 2.0])
        assert legend(ax) == ["a"]
        assert ax.get_yscale() == "log"
        assert "median of E[g]² / Var[g]" in ax.get_ylabel()

    @pytest.mark.parametrize(
        ("ratio", "expected"),
        [("pooled", [5.0, 5.0]), ("mean", [2e7, 1e7]), ("paper", [9.0, 8.0])],
    )
    def test_other_ratios(self, ratio, expected):
        ax = tfvn.plots.gradient_snr(types.SimpleNamespace(history=FIRST), ratio)
        assert data(ax.lines[0])[1] == expected

    def test_logs_of_the_callback(self):
        layer = tfvn.MeanFieldDense(3, activation="softmax", name="last")
        model = tfvn.Sequential([keras.Input((4,)), layer])
        model.compile("adam", "sparse_categorical_crossentropy")
        x, y = np.random.default_rng(0).normal(size=(8, 4)), np.ones(8)
        snr = tfvn.callbacks.GradientSNR(layer, window=4)
        history = model.fit(x, y, batch_size=2, callbacks=[snr], verbose=0)
        for kind in ("median", "pooled", "paper"):
            ax = tfvn.plots.gradient_snr(history, kind)
            assert data(ax.lines[0])[1] == history.history[f"snr_{kind}_last"]

    def test_several_runs_and_layers(self, legend):
        ax = tfvn.plots.gradient_snr({"x": FIRST, "y": SECOND})
        assert legend(ax) == ["x", "y"]
        np.testing.assert_array_equal(ax.lines[1].get_ydata(), [4.0, np.nan])
        logs = {**FIRST, **ratios("b", [1.0, 1.0], [1.0, 1.0], [1.0, 1.0])}
        ax = tfvn.plots.gradient_snr({"x": logs, "y": SECOND})
        assert legend(ax) == ["x, a", "x, b", "y, a"]

    def test_layer_whose_name_begins_with_paper(self, legend):
        logs = {"snr_paper_a": [1.0, 2.0], "snr_paper_paper_a": [3.0, 4.0]}
        ax = tfvn.plots.gradient_snr(logs, "mean")
        assert legend(ax) == ["paper_a"]
        assert data(ax.lines[0])[1] == [1.0, 2.0]

    def test_bad_input(self):
        nothing = {"snr_median_a": [np.nan], "snr_a": [1.0], "snr_paper_a": [1.0]}
        for runs in ({"loss": [1.0]}, nothing):
            with pytest.raises(ValueError, match="must have positive ratios"):
                tfvn.plots.gradient_snr(runs)
        with pytest.raises(ValueError, match=r"what `fit` returns.*runs=list"):
            tfvn.plots.gradient_snr({"x": FIRST, "y": [1.0]})
        with pytest.raises(ValueError, match=r"`ratio` must be one of.*'median'"):
            tfvn.plots.gradient_snr(FIRST, "max")


class TestPruningCurve:
    curve = types.SimpleNamespace(
        fractions=np.array([0.9, 0.0, 0.5]),
        accuracy=np.array([0.6, 0.9, 0.8]),
        nll=np.array([3.0, 1.0, 2.0]),
    )

    def test_object(self):
        ax = tfvn.plots.pruning_curve(self.curve)
        line, before = ax.lines
        assert data(line) == ([0.0, 0.5, 0.9], [0.9, 0.8, 0.6])
        assert before.get_ydata()[0] == 0.9
        assert ax.get_legend() is None
        ax = tfvn.plots.pruning_curve(self.curve, measure="nll", ax=ax)
        assert data(ax.lines[2])[1] == [1.0, 2.0, 3.0]
        assert ax.lines[2].get_color() != line.get_color()

    def test_arrays_and_several_by_name(self, legend):
        ax = tfvn.plots.pruning_curve([0.5, 0.9], [0.8, 0.6])
        assert data(ax.lines[0]) == ([0.5, 0.9], [0.8, 0.6])
        assert len(ax.lines) == 1
        ax = tfvn.plots.pruning_curve({"a": self.curve, "b": ([0.1, 0.2], [0.3, 0.4])})
        assert legend(ax) == ["a", "b"]
        assert data(ax.lines[1]) == ([0.1, 0.2], [0.3, 0.4])

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (([0.1, 0.2],), "pass `values` beside"),
            ((types.SimpleNamespace(fractions=[0.1]),), "`fractions` and `accuracy`"),
            (([0.1, 2.0], [0.5, 0.5]), "fractions from 0.1 to 2 and 2 values"),
            (([0.1, 0.2], [0.5]), "and 1 values"),
            (({},), "at least one curve"),
            ((curve, None, "loss"), "`measure` must be one of"),
        ],
    )
    def test_bad_input(self, arguments, text):
        with pytest.raises(ValueError, match=text):
            tfvn.plots.pruning_curve(*arguments)
