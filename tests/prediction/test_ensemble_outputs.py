"""What an ensemble says of each kind of output, and how it knows the kind."""

import keras
import models
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from models import CLASSES, FEATURES, X, sequential

import tfvn


def test_several_inputs_and_outputs():
    first, second = keras.Input((FEATURES,), name="a"), keras.Input((2,), name="b")
    hidden = models.mean_field("local")(layers.concatenate([first, second]))
    outputs = {
        "digit": layers.Dense(CLASSES, "softmax")(hidden),
        "size": layers.Dense(1)(hidden),
        "plain": layers.Dense(2)(first),
    }
    model = keras.Model({"a": first, "b": second}, outputs)
    x = {"a": X, "b": X[:, :2]}
    # The last activation says what a digit is.
    kinds = {"size": "regression", "plain": "regression"}
    answer = tfvn.ensemble_predict(model, x, outputs=kinds, num_samples=4)
    assert answer["digit"].entropy.shape == (6,)
    assert answer["size"].entropy is None
    assert answer["size"].std.min() > 0
    assert answer["plain"].std.max() == 0


class TestScalarOutputs:
    """Outputs of shape `(batch_size,)`: figures have one number for each row."""

    @pytest.mark.one_in(3)
    @pytest.mark.parametrize("kind", ["logits", "probabilities"])
    @pytest.mark.parametrize("num_samples", [1, 4])
    def test_binary(self, kind, num_samples):
        activation = "sigmoid" if kind == "probabilities" else None
        middle, last = models.mean_field("local"), layers.Dense(1, activation)
        model = keras.Sequential([keras.Input((FEATURES,)), middle, last])
        inputs = keras.Input((FEATURES,))
        scalar = keras.Sequential([inputs, *model.layers, layers.Reshape(())])
        assert scalar.output_shape == (None,)
        for told in (f"binary_{kind}", kind):
            arguments = {"num_samples": num_samples, "seed": 1, "outputs": told}
            one = tfvn.ensemble_predict(scalar, X, return_samples=True, **arguments)
            other = tfvn.ensemble_predict(model, X, **arguments)
            assert one.samples.shape == (6, num_samples)
            np.testing.assert_allclose(one.mean, other.mean[:, 0], atol=1e-6)
            for name in ("entropy", "expected_entropy", "mutual_information"):
                figure = getattr(one, name)
                assert figure.shape == (6,)
                np.testing.assert_allclose(figure, getattr(other, name), atol=1e-5)

    def test_distribution(self):
        last = [models.mean_field("local", 1), layers.Reshape(())]
        model = keras.Sequential([keras.Input((FEATURES,)), *last])
        model.compile("sgd", tfvn.losses.GaussianNLL(scale=0.5))
        answer = tfvn.ensemble_predict(model, X, num_samples=4)
        assert answer.mean.shape == answer.interval(0.5)[0].shape == (6,)
        np.testing.assert_allclose(answer.aleatoric_std, 0.5, rtol=1e-6)
        assert answer.log_prob(np.zeros((6, 1))).shape == (6,)


class TestFigures:
    def expected(self, samples):
        """Entropy, expected entropy and mutual information by NumPy."""
        samples = samples.astype("float64")

        def entropy(p):
            return -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(-1)

        total, expected = entropy(samples.mean(1)), entropy(samples).mean(1)
        return total, expected, total - expected

    @pytest.mark.parametrize("outputs", ["logits", "probabilities"])
    def test_classes(self, outputs):
        activation = "softmax" if outputs == "probabilities" else None
        model = sequential(models.mean_field("local"), activation=activation)
        answer = tfvn.ensemble_predict(model, X, outputs=outputs, return_samples=True)
        assert answer.samples.shape == (6, 20, CLASSES)
        np.testing.assert_allclose(answer.samples.sum(-1), 1, atol=1e-5)
        np.testing.assert_allclose(answer.mean, answer.samples.mean(1), atol=1e-6)
        np.testing.assert_allclose(answer.std, answer.samples.std(1), atol=1e-6)
        figures = self.expected(answer.samples)
        names = ("entropy", "expected_entropy", "mutual_information")
        for name, figure in zip(names, figures, strict=True):
            np.testing.assert_allclose(getattr(answer, name), figure, atol=1e-5)
        assert answer.mutual_information.min() > 1e-3

    @pytest.mark.parametrize(
        "outputs", ["binary_logits", "binary_probabilities", "logits", "probabilities"]
    )
    def test_one_binary_output(self, outputs):
        last = layers.Dense(1, None if "logits" in outputs else "sigmoid")
        model = keras.Sequential(
            [keras.Input((FEATURES,)), models.mean_field("local"), last]
        )
        answer = tfvn.ensemble_predict(model, X, outputs=outputs, return_samples=True)
        both = np.concatenate([answer.samples, 1 - answer.samples], axis=-1)
        names = ("entropy", "expected_entropy", "mutual_information")
        for name, figure in zip(names, self.expected(both), strict=True):
            assert getattr(answer, name).shape == (6,)
            np.testing.assert_allclose(getattr(answer, name), figure, atol=1e-5)

    def test_regression(self):
        model = keras.Sequential(
            [keras.Input((FEATURES,)), models.mean_field("local", 2)]
        )
        answer = tfvn.ensemble_predict(
            model, X, outputs="regression", return_samples=True
        )
        np.testing.assert_allclose(answer.mean, answer.samples.mean(1), atol=1e-6)
        assert answer.entropy is answer.mutual_information is None
        assert set(answer.to_dict()) == {"mean", "std", "samples"}

    @pytest.mark.parametrize("kind", ["logits", "binary_logits"])
    def test_extreme_logits_give_no_nan(self, kind):
        values = [0.0, 1e38, -1e38, np.inf, -np.inf]
        draws = tf.constant([[[a, b] for a in values for b in values]])
        for part in tfvn.prediction.outputs.summarize(draws, kind).values():
            assert np.isfinite(part).all()

    @pytest.mark.parametrize("size", [1, 2])
    @pytest.mark.parametrize("kind", ["logits", "probabilities"])
    def test_certainty_is_no_negative_zero(self, kind, size):
        # Which a server, and the command, would show as such.
        values = [1e38, -1e38] if kind == "logits" else [1.0, 0.0]
        draws = tf.constant([[values[:size]] * 3])
        figures = tfvn.prediction.outputs.summarize(draws, kind)
        for name in ("entropy", "expected_entropy", "mutual_information"):
            assert figures[name].numpy().tolist() == [0.0]
            assert not np.signbit(figures[name]).any(), name

    def test_repr_names_what_there_is(self):
        answer = tfvn.ensemble_predict(models.local(), X, num_samples=3)
        lines = repr(answer).splitlines()
        assert lines[0] == "EnsemblePrediction with num_samples=3:"
        assert lines[1].split() == ["mean", "float32", "(6,", "3)"]
        assert len(answer) == 6
        assert answer.samples is None
