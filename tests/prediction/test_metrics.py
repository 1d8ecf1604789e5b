"""Metrics against scikit-learn, and against NumPy where it has none."""

import keras
import numpy as np
import pytest
from scipy import special
from sklearn import metrics as sklearn

import tfvn

RNG = np.random.default_rng(0)
CLASSES = 4
Y = RNG.integers(CLASSES, size=300)
DRAWS = special.softmax(
    RNG.normal(size=(300, 7, CLASSES)) + 2 * np.eye(CLASSES)[Y][:, None], axis=-1
).astype("float32")
MEAN = DRAWS.mean(1)


def measured(metric, y_true, y_pred, parts=3):
    """What a metric says after several updates, in eager code."""
    for rows in np.array_split(np.arange(len(y_pred)), parts):
        metric.update_state(None if y_true is None else y_true[rows], y_pred[rows])
    return float(metric.result())


def entropy(p):
    return -(p * np.log(p)).sum(-1)


def calibration_error(y, probabilities, bins):
    """The error for bins given as lists of rows."""
    confidence = probabilities.max(-1)
    right = probabilities.argmax(-1) == y
    return sum(
        len(rows) / len(y) * abs(right[rows].mean() - confidence[rows].mean())
        for rows in bins
        if len(rows)
    )


def test_calibration_error_in_bins_of_equal_width():
    edges = np.linspace(0, 1, 11)
    bins = np.digitize(MEAN.max(-1), edges, right=True)
    expected = calibration_error(
        Y, MEAN, [np.flatnonzero(bins == b) for b in range(1, 11)]
    )
    metric = tfvn.metrics.ExpectedCalibrationError(num_bins=10)
    assert measured(metric, Y, MEAN) == pytest.approx(expected, abs=1e-6)
    assert expected > 0.02


def test_a_confidence_between_two_bins_belongs_to_the_lower_one():
    # Right with 0.75 and wrong with 0.625, both in the bin (0.5, 0.75].
    metric = tfvn.metrics.ExpectedCalibrationError(num_bins=4)
    y_pred = np.array([[0.75, 0.25], [0.625, 0.375]])
    expected = abs(0.5 - 0.6875)
    assert measured(metric, np.array([0, 1]), y_pred) == pytest.approx(expected)


def test_calibration_error_in_bins_of_equal_mass():
    order = np.argsort(MEAN.max(-1))
    expected = calibration_error(Y, MEAN, np.array_split(order, 7))
    metric = tfvn.metrics.ExpectedCalibrationError(num_bins=7, binning="adaptive")
    # Up to the order within ties.
    assert measured(metric, Y, MEAN) == pytest.approx(expected, abs=1e-3)


def test_adaptive_bins_of_one_confidence_are_one_bin():
    metric = tfvn.metrics.ExpectedCalibrationError(num_bins=5, binning="adaptive")
    y_pred = np.tile([[0.75, 0.25]], (8, 1))
    assert measured(metric, np.array([0] * 4 + [1] * 4), y_pred) == pytest.approx(0.25)


def test_adaptive_bins_tell_confidences_near_one_apart():
    # Half of the rows are less sure than they could be, half of them surer: in one bin
    # the two errors would cancel.
    confidence = np.repeat([1.0 - 2e-4, 1.0 - 1e-6], 5_000)
    y_true = np.zeros(10_000, "int32")
    y_true[-2:] = 1
    expected = 0.5 * 2e-4 + 0.5 * (4e-4 - 1e-6)
    metric = tfvn.metrics.ExpectedCalibrationError(num_bins=2, binning="adaptive")
    y_pred = np.stack([confidence, 1.0 - confidence], axis=1)
    assert measured(metric, y_true, y_pred) == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize("weight", [0.01, 1.0, 100.0])
def test_adaptive_bins_know_only_the_ratios_of_weights(weight):
    # Half of the rows are sure and wrong, half of them not so sure and right.
    y_pred = np.repeat([[1.0, 0.0], [0.5001, 0.4999]], 50, axis=0)
    y_true = np.repeat([1, 0], 50)
    metric = tfvn.metrics.ExpectedCalibrationError(num_bins=10, binning="adaptive")
    metric.update_state(y_true, y_pred, sample_weight=np.full(100, weight))
    assert float(metric.result()) == pytest.approx(0.75, abs=1e-3)


def test_calibration_error_with_weights_is_that_of_repeated_rows():
    weights = RNG.integers(1, 4, size=300)
    weighted, repeated = (tfvn.metrics.ExpectedCalibrationError() for _ in range(2))
    weighted.update_state(Y, MEAN, sample_weight=weights)
    repeated.update_state(np.repeat(Y, weights), np.repeat(MEAN, weights, axis=0))
    assert float(weighted.result()) == pytest.approx(float(repeated.result()), abs=1e-6)


@pytest.mark.parametrize(
    "labels", [Y, Y[:, None], np.eye(CLASSES)[Y]], ids=["1d", "2d", "hot"]
)
def test_brier_score(labels):
    expected = sklearn.brier_score_loss(Y, MEAN / MEAN.sum(-1, keepdims=True))
    metric = tfvn.metrics.BrierScore()
    assert measured(metric, labels, MEAN) == pytest.approx(expected, abs=1e-5)


def test_binary_predictions_are_those_of_two_classes():
    y, p = RNG.integers(2, size=50), RNG.uniform(size=(50, 1))
    expected = 2 * sklearn.brier_score_loss(y, p[:, 0])
    assert measured(tfvn.metrics.BrierScore(), y, p) == pytest.approx(
        expected, abs=1e-5
    )
    both = np.concatenate([1 - p, p], axis=1)
    for make in (tfvn.metrics.ExpectedCalibrationError, tfvn.metrics.AURC):
        assert measured(make(), y, p) == pytest.approx(
            measured(make(), y, both), abs=1e-6
        )


def test_metrics_of_draws():
    expected = sklearn.log_loss(Y, MEAN / MEAN.sum(-1, keepdims=True))
    assert measured(tfvn.metrics.EnsembleNLL(), Y, DRAWS) == pytest.approx(
        expected, abs=1e-5
    )
    accuracy = sklearn.accuracy_score(Y, MEAN.argmax(-1))
    assert measured(tfvn.metrics.EnsembleAccuracy(), Y, DRAWS) == pytest.approx(
        accuracy
    )
    total, mean = entropy(MEAN).mean(), entropy(DRAWS).mean()
    found = measured(tfvn.metrics.PredictiveEntropy(), None, DRAWS)
    assert found == pytest.approx(total, abs=1e-5)
    found = measured(tfvn.metrics.MutualInformation(), None, DRAWS)
    assert found == pytest.approx(total - mean, abs=1e-5)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("shift", [0.0, -2.0, 1e4])
def test_scores_of_any_size_and_sign(scale, shift):
    y = RNG.integers(2, size=1000)
    scores = (scale * (RNG.normal(size=1000) + y + shift)).astype("float32")
    expected = sklearn.roc_auc_score(y, scores)
    assert measured(tfvn.metrics.OODAUROC(), y, scores) == pytest.approx(
        expected, abs=1e-6
    )
    false, true, _ = sklearn.roc_curve(y, scores, drop_intermediate=False)
    expected = false[np.argmax(true >= 0.95)]
    assert measured(tfvn.metrics.FPR95(), y, scores) == pytest.approx(
        expected, abs=1e-6
    )


def test_ties_count_half():
    y, scores = RNG.integers(2, size=500), RNG.integers(4, size=500) * 1.0
    expected = sklearn.roc_auc_score(y, scores)
    assert measured(tfvn.metrics.OODAUROC(), y, scores) == pytest.approx(
        expected, abs=1e-6
    )


def test_scores_at_the_threshold_are_taken():
    # 95 % of the examples from outside have at least a score of 0.5.
    outside, inside = np.full(20, 0.5), np.repeat([0.5, 0.1], [3, 7])
    outside[0] = 0.0
    metric = tfvn.metrics.FPR95()
    metric.update_state(np.repeat([1, 0], [20, 10]), np.concatenate([outside, inside]))
    assert float(metric.result()) == pytest.approx(0.3)


def test_risk_coverage():
    order = np.argsort(-MEAN.max(-1), kind="stable")
    wrong = (MEAN.argmax(-1) != Y)[order]
    expected = (np.cumsum(wrong) / np.arange(1, len(Y) + 1)).mean()
    assert measured(tfvn.metrics.AURC(), Y, MEAN) == pytest.approx(expected, abs=1e-4)


def test_risk_of_ties_is_that_of_a_random_order():
    wrong = np.array([0, 1, 0, 0, 1, 1, 0])
    y_pred = np.tile([[0.8, 0.2]], (7, 1))
    risks = [
        (np.cumsum(RNG.permutation(wrong)) / np.arange(1, 8)).mean()
        for _ in range(4000)
    ]
    error = np.std(risks) / np.sqrt(len(risks))
    found = measured(tfvn.metrics.AURC(), wrong, y_pred)
    assert abs(found - np.mean(risks)) < 4 * error
    assert found == pytest.approx(3 / 7)  # every risk is, on average, the error rate


# Those of predictions of numbers have tests of their own.
OF_NUMBERS = {
    "CRPS",
    "IntervalCoverage",
    "IntervalWidth",
    "PredictiveNLL",
    "QuantileCalibrationError",
}
METRICS = [
    getattr(tfvn.metrics, name)
    for name in tfvn.metrics.__all__
    if name not in OF_NUMBERS
]


@pytest.mark.parametrize("make", METRICS)
def test_config_and_reset(make):
    metric = make(name="mine")
    again = make.from_config(metric.get_config())
    assert again.name == "mine"
    assert again.get_config() == metric.get_config()
    scores = isinstance(metric, tfvn.metrics.OODAUROC | tfvn.metrics.FPR95)
    draws = isinstance(metric, tfvn.metrics.EnsembleNLL | tfvn.metrics.EnsembleAccuracy)
    draws |= isinstance(
        metric, tfvn.metrics.PredictiveEntropy | tfvn.metrics.MutualInformation
    )
    y_pred = MEAN[:, 0] if scores else DRAWS if draws else MEAN
    first = measured(metric, Y % 2 if scores else Y, y_pred)
    assert np.isfinite(first)
    metric.reset_state()
    assert measured(metric, Y % 2 if scores else Y, y_pred) == pytest.approx(first)


def test_in_a_compiled_model():
    model = keras.Sequential([keras.Input((CLASSES,)), keras.layers.Softmax()])
    metrics = [
        tfvn.metrics.ExpectedCalibrationError(),
        tfvn.metrics.BrierScore(),
        tfvn.metrics.AURC(),
    ]
    model.compile(loss="sparse_categorical_crossentropy", metrics=metrics)
    logits = np.log(MEAN)
    found = model.evaluate(logits, Y, verbose=0, return_dict=True, batch_size=64)
    y_pred = model.predict(logits, verbose=0)
    for metric in metrics:
        expected = measured(type(metric)(), Y, y_pred)
        assert found[metric.name] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (
            lambda: tfvn.metrics.ExpectedCalibrationError(num_bins=0),
            "`num_bins` must be",
        ),
        (
            lambda: tfvn.metrics.ExpectedCalibrationError(binning="x"),
            "`binning` must be",
        ),
        (lambda: tfvn.metrics.EnsembleNLL().update_state(Y, MEAN), "must be draws"),
        (
            lambda: tfvn.metrics.BrierScore().update_state(np.eye(3)[Y % 3], MEAN),
            "one-hot",
        ),
        (lambda: tfvn.metrics.OODAUROC().update_state(Y, MEAN), "must be scores"),
        (
            lambda: tfvn.metrics.AURC().update_state(Y, MEAN, MEAN[:, 0]),
            "does not support weights",
        ),
    ],
)
def test_errors(act, words):
    with pytest.raises(ValueError, match=words):
        act()
