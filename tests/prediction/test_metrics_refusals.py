"""What metrics refuse, in eager code, graphs and XLA, and what they go on counting."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import special

import tfvn

P = np.array([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8]])
Y = np.array([0, 1, 2, 2])
LOGITS = 3.0 * np.log(P) + 2.0

OF_CLASSES = ["ExpectedCalibrationError", "BrierScore", "AURC"]
OF_DRAWS = ["EnsembleNLL", "EnsembleAccuracy", "PredictiveEntropy", "MutualInformation"]
WITH_LABELS = [*OF_CLASSES, "EnsembleNLL", "EnsembleAccuracy"]
OF_SCORES = ["OODAUROC", "FPR95"]


def make(name, **kwargs):
    return getattr(tfvn.metrics, name)(**kwargs)


def shaped(name, y_pred):
    """Predictions as they are, or as two equal draws."""
    y_pred = np.asarray(y_pred)
    return np.stack([y_pred, y_pred], axis=1) if name in OF_DRAWS else y_pred


def measured(name, y_true, y_pred, sample_weight=None, **kwargs):
    metric = make(name, **kwargs)
    metric.update_state(y_true, shaped(name, y_pred), sample_weight)
    return float(metric.result())


class TestProbabilities:
    @pytest.mark.parametrize("name", OF_CLASSES + OF_DRAWS)
    def test_logits_are_asked_for_by_name(self, name):
        with pytest.raises(ValueError, match="or logits with `from_logits=True`"):
            measured(name, Y, LOGITS)
        expected = measured(name, Y, special.softmax(LOGITS, axis=-1))
        found = measured(name, Y, LOGITS, from_logits=True)
        assert found == pytest.approx(expected, abs=1e-6)

    @pytest.mark.parametrize("name", OF_CLASSES)
    def test_binary_logits(self, name):
        x = np.array([[1.0], [-2.0], [0.5], [3.0]])
        labels = np.array([1, 0, 0, 1])
        expected = measured(name, labels, special.expit(x))
        found = measured(name, labels, x, from_logits=True)
        assert found == pytest.approx(expected, abs=1e-6)
        # Labels of two classes may be one-hot here as well.
        assert measured(name, np.eye(2)[labels], special.expit(x)) == expected

    @pytest.mark.parametrize("name", OF_CLASSES + OF_DRAWS)
    @pytest.mark.parametrize(
        "row",
        [
            [0.9, 0.3, 0.1],
            [1.2, -0.1, -0.1],
            [np.nan, 0.5, 0.5],
            [0.0, 0.0, 0.0],
            [np.inf, 0.0, 0.0],
        ],
        ids=["sum", "negative", "nan", "zeros", "infinite"],
    )
    def test_other_numbers_are_refused(self, name, row):
        y_pred = np.concatenate([P[:3], [row]])
        with pytest.raises(ValueError, match="`y_pred` must be probabilities"):
            measured(name, Y, y_pred)
        # But for an example that does not count.
        if name != "AURC":
            expected = measured(name, Y[:3], P[:3])
            found = measured(name, Y, y_pred, np.array([1, 1, 1, 0]))
            assert found == pytest.approx(expected, abs=1e-6)

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
    def test_half_precision_is_near_enough(self, dtype):
        logits = tf.cast(np.random.default_rng(0).normal(size=(200, 1000)), dtype)
        y_pred = tf.nn.softmax(3 * logits)
        y_true = np.arange(200)
        found = measured("BrierScore", y_true, tf.cast(y_pred, "float32"))
        assert 1.1 < found < 1.2
        with pytest.raises(ValueError, match="`y_pred` must be"):
            measured("BrierScore", y_true, tf.cast(y_pred * 1.06, "float32"))


class TestLabels:
    @pytest.mark.parametrize("name", WITH_LABELS)
    @pytest.mark.parametrize("wrong", [9, 3, -1, 0.5, np.nan, 2**40])
    def test_of_no_class(self, name, wrong):
        labels = np.array([0, 1, 2, wrong])
        with pytest.raises(ValueError, match="integers from 0 to 2, or one-hot"):
            measured(name, labels, P)
        if name != "AURC":
            expected = measured(name, Y[:3], P[:3])
            found = measured(name, labels, P, np.array([[1], [1], [1], [0]]))
            assert found == pytest.approx(expected, abs=1e-6)

    @pytest.mark.parametrize("name", WITH_LABELS)
    def test_forms(self, name):
        expected = measured(name, Y, P)
        hot = np.eye(3)[Y]
        for labels in (Y.astype("float32"), Y.astype("uint8"), Y[:, None], hot > 0):
            assert measured(name, labels, P) == expected
        soft = 0.9 * hot + 0.1 / 3
        for labels, words in (
            (soft, "or one-hot"),
            (hot + hot[::-1], "or one-hot"),
            (Y[:3], "one for each example"),
            (Y[:1], "one for each example"),
            (Y.astype(str), "must be numbers"),
        ):
            with pytest.raises(ValueError, match=words):
                measured(name, labels, P)

    def test_bools_are_two_classes(self):
        p, labels = np.array([[0.2], [0.9]]), np.array([False, True])
        expected = (2 * 0.2**2 + 2 * 0.1**2) / 2
        assert measured("BrierScore", labels, p) == pytest.approx(expected)


class TestGraphs:
    def update(self, name, jit=False):
        metric = make(name)

        @tf.function(
            jit_compile=jit,
            input_signature=[
                tf.TensorSpec([None], tf.int32),
                tf.TensorSpec([None, *shaped(name, P).shape[1:]], tf.float32),
            ],
        )
        def update(y_true, y_pred):
            metric.update_state(y_true, y_pred)

        def updated(y_true, y_pred):
            y_pred = shaped(name, y_pred).astype("float32")
            update(tf.constant(y_true, tf.int32), tf.constant(y_pred))
            return float(metric.result())

        return updated

    @pytest.mark.one_in(3)
    @pytest.mark.parametrize(
        "name", ["ExpectedCalibrationError", "AURC", "EnsembleNLL"]
    )
    def test_refuse_too(self, name):
        updated = self.update(name)
        for labels, y_pred, words in (
            (Y, LOGITS, "`y_pred` must be probabilities"),
            (Y + 1, P, "`y_true` must be integers"),
            (Y[:1], P, "a label for each example"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=words):
                updated(labels, y_pred)
        assert updated(Y, P) == pytest.approx(measured(name, Y, P), abs=1e-6)

    @pytest.mark.parametrize("name", WITH_LABELS)
    def test_xla_cannot_refuse_and_says_nan(self, name):
        updated = self.update(name, jit=True)
        assert updated(Y, P) == pytest.approx(measured(name, Y, P), abs=1e-6)
        assert np.isnan(updated(Y + 1, P))
        # It stays so until the state is reset.
        assert np.isnan(updated(Y, P))

    @pytest.mark.parametrize("name", OF_SCORES)
    def test_scores(self, name):
        metric = make(name)
        update = tf.function(metric.update_state)
        with pytest.raises(tf.errors.InvalidArgumentError, match="some are NaN"):
            update(tf.constant([0, 1]), tf.constant([0.5, np.nan]))
        update(tf.constant([0, 1]), tf.constant([0.5, 0.7]))
        assert float(metric.result()) == (1.0 if name == "OODAUROC" else 0.0)


class TestScores:
    @pytest.mark.parametrize("name", OF_SCORES)
    def test_of_one_sort_alone_there_is_no_figure(self, name):
        metric = make(name)
        assert np.isnan(metric.result())
        for label in (0, 1):
            metric.reset_state()
            metric.update_state([label] * 3, [0.1, 0.2, 0.3])
            assert np.isnan(metric.result())
        metric.update_state([0], [0.2])
        assert np.isfinite(metric.result())

    @pytest.mark.parametrize("name", OF_SCORES)
    def test_refusals(self, name):
        for labels, scores, words in (
            ([0, 1], [0.1, np.nan], "some are NaN"),
            ([0, 2], [0.1, 0.2], "`y_true` must be 1"),
            ([0, -1], [0.1, 0.2], "`y_true` must be 1"),
            ([0.5, 1], [0.1, 0.2], "`y_true` must be 1"),
            ([0, 1, 1], [0.1, 0.2], "a label for each score"),
        ):
            with pytest.raises(ValueError, match=words):
                measured(name, labels, scores)

    def test_infinite_scores_are_the_largest(self):
        scores = [-np.inf, 1.0, 2.0, np.inf]
        assert measured("OODAUROC", [0, 0, 1, 1], scores) == 1.0
        assert measured("FPR95", [1, 0, 0, 0], scores) == 1.0
        assert measured("FPR95", [False, False, True, True], scores) == 0.0

    def test_float64_scores_are_told_apart(self):
        scores = 1.0 + 1e-12 * np.arange(4)
        assert measured("OODAUROC", [0, 0, 1, 1], scores) == 1.0


class TestWeightsAndAxes:
    @pytest.mark.parametrize(
        "name", ["ExpectedCalibrationError", "BrierScore", "EnsembleNLL"]
    )
    def test_weights_of_another_shape(self, name):
        for weights in (np.ones(3), np.ones(1), np.ones((4, 3)), np.ones((2, 2))):
            with pytest.raises(ValueError, match="Argument `sample_weight` must"):
                measured(name, Y, P, weights)
        assert measured(name, Y, P, 2.0) == pytest.approx(measured(name, Y, P))

    @pytest.mark.parametrize("name", OF_CLASSES + OF_DRAWS)
    def test_steps_are_examples(self, name):
        y_pred, labels = P.reshape(2, 2, 3), Y.reshape(2, 2)
        expected = measured(name, Y, P)
        assert measured(name, labels, y_pred) == pytest.approx(expected, abs=1e-6)
        if name == "AURC":
            return
        weights = np.array([1.0, 3.0])
        expected = measured(name, Y, P, np.repeat(weights, 2))
        found = measured(name, labels, y_pred, weights)
        assert found == pytest.approx(expected, abs=1e-6)

    @pytest.mark.parametrize("name", OF_CLASSES + OF_DRAWS)
    def test_batches_of_none_and_of_one(self, name):
        metric = make(name)
        metric.update_state(Y[:0], shaped(name, P[:0]))
        assert float(metric.result()) == 0.0
        for row in range(4):
            place = slice(row, row + 1)
            metric.update_state(Y[place], shaped(name, P)[place])
        metric.update_state(Y[:0], shaped(name, P[:0]))
        assert float(metric.result()) == pytest.approx(measured(name, Y, P), abs=1e-6)

    def test_masked_steps_do_not_count(self):
        # Labels of padded steps are no labels.
        labels = np.array([[0, 1, -1], [2, -1, -1]])
        x = np.array([[[1.0, 0, 0], [0, 2, 1], [0, 0, 0]], [[1, 1, 3]] + [[0] * 3] * 2])
        layers = [keras.layers.Masking(), keras.layers.Activation("softmax")]
        model = keras.Sequential([keras.Input((3, 3)), *layers])
        metrics = [make(name) for name in OF_CLASSES]
        model.compile(loss="mse", metrics=metrics)
        found = model.evaluate(x, labels[..., None], verbose=0, return_dict=True)
        rows = special.softmax(x[labels >= 0], axis=-1)
        for name, metric in zip(OF_CLASSES, metrics, strict=True):
            expected = measured(name, labels[labels >= 0], rows)
            assert found[metric.name] == pytest.approx(expected, abs=1e-6)


class TestSums:
    @pytest.mark.parametrize("name", ["ExpectedCalibrationError", "BrierScore"])
    def test_go_on_beyond_float32(self, name):
        """A float32 that has reached 2**24 does not change when 1 is added."""
        metric = make(name)
        surely, wrongly = np.array([[1.0, 0.0]]), np.array([1])
        metric.update_state([0], surely, sample_weight=[2.0**24])
        for _ in range(64):
            metric.update_state(wrongly, surely)
        expected = (1 if name == "ExpectedCalibrationError" else 2) * 64 / (2**24 + 64)
        assert float(metric.result()) == pytest.approx(expected, rel=1e-6)

    @pytest.mark.parametrize("name", WITH_LABELS)
    def test_results_are_of_the_type_that_was_asked_for(self, name):
        for dtype in ("float32", "float64", "float16"):
            metric = make(name, dtype=dtype)
            metric.update_state(Y, shaped(name, P))
            assert metric.result().dtype == dtype

    @pytest.mark.exhaustive
    def test_replicas(self, two_replicas):
        with two_replicas.scope():
            model = keras.Sequential([keras.Input((3,)), keras.layers.Softmax()])
            metrics = [make(name) for name in OF_CLASSES]
            model.compile(loss="sparse_categorical_crossentropy", metrics=metrics)
        x = np.tile(np.log(P), (3, 1))
        found = model.evaluate(
            x, np.tile(Y, 3), batch_size=4, verbose=0, return_dict=True
        )
        for metric in metrics:
            expected = measured(
                type(metric).__name__, np.tile(Y, 3), np.tile(P, (3, 1))
            )
            assert found[metric.name] == pytest.approx(expected, abs=1e-5)


def test_mixed_precision_logits_and_a_saved_model(tmp_path):
    keras.config.set_dtype_policy("mixed_float16")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3)])
    metrics = [make(name, from_logits=True) for name in OF_CLASSES]
    model.compile(
        "sgd",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=metrics,
    )
    x = LOGITS.astype("float32")
    model.train_on_batch(x, Y)
    found = model.evaluate(x, Y, verbose=0, return_dict=True)
    logits = model.predict(x, verbose=0)
    for name, metric in zip(OF_CLASSES, metrics, strict=True):
        expected = measured(name, Y, logits, from_logits=True)
        assert found[metric.name] == pytest.approx(expected, abs=1e-5)
    model.save(tmp_path / "m.keras")
    again = keras.saving.load_model(tmp_path / "m.keras")
    assert again.evaluate(x, Y, verbose=0, return_dict=True) == pytest.approx(found)
