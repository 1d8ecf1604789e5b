"""How it is known what outputs are, and that nothing is guessed."""

import functools

import keras
import models
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, losses
from models import CLASSES, FEATURES, X, sequential

import tfvn
from tfvn.likelihoods import Laplace, Normal, Poisson
from tfvn.prediction.kinds import find_kinds


class OwnBinary(losses.BinaryCrossentropy):
    """A loss of the user's own that is a known one."""


class Forgetful(losses.BinaryCrossentropy):
    """One that does not say whether it takes logits."""

    def get_config(self):
        return {}


class SoftmaxBrier(losses.MeanSquaredError):
    """One that takes logits, though a known one that it extends does not."""

    def call(self, y_true, y_pred):
        return super().call(y_true, keras.ops.softmax(y_pred))


class Renamed(losses.MeanSquaredError):
    """One that computes what the known one does."""


class Smoothed(losses.CategoricalCrossentropy):
    """One that says whether it takes logits, whatever it computes."""

    def call(self, y_true, y_pred):
        return super().call(0.9 * y_true, y_pred)


class Own(losses.Loss):
    """One that nothing is known of."""

    def call(self, y_true, y_pred):
        return keras.ops.mean(y_true * y_pred, axis=-1)


def own(y_true, y_pred):
    return keras.ops.mean(y_true * y_pred, axis=-1)


def compiled(activation=None, loss=None):
    model = sequential(models.mean_field("local"), activation=activation)
    if loss is not None:
        model.compile("sgd", loss)
    return model


@pytest.mark.parametrize(
    ("activation", "loss", "kind"),
    [
        ("softmax", None, "probabilities"),
        ("sigmoid", None, "binary_probabilities"),
        (tf.nn.softmax, None, "probabilities"),
        (functools.partial(keras.activations.softmax, axis=-1), None, "probabilities"),
        ("sparsemax", None, "probabilities"),
        ("softmax", own, "probabilities"),
        ("softmax", "mse", "probabilities"),
        ("softmax", "kl_divergence", "probabilities"),
        ("softmax", "binary_crossentropy", "probabilities"),
        ("sigmoid", "binary_focal_crossentropy", "binary_probabilities"),
        ("hard_sigmoid", "bce", "binary_probabilities"),
        ("sigmoid", OwnBinary(), "binary_probabilities"),
        (None, losses.SparseCategoricalCrossentropy(from_logits=True), "logits"),
        (None, losses.CategoricalFocalCrossentropy(from_logits=True), "logits"),
        ("log_softmax", losses.CategoricalCrossentropy(from_logits=True), "logits"),
        (None, losses.BinaryCrossentropy(from_logits=True), "binary_logits"),
        (None, OwnBinary(from_logits=True), "binary_logits"),
        (
            None,
            functools.partial(losses.binary_crossentropy, from_logits=True),
            "binary_logits",
        ),
        (
            None,
            functools.partial(losses.categorical_crossentropy, from_logits=True),
            "logits",
        ),
        # A function that is not known: the loss has the say.
        (lambda x: x, "categorical_crossentropy", "probabilities"),
        (None, "mse", "regression"),
        ("relu", "mae", "regression"),
        ("tanh", losses.Huber(), "regression"),
        (None, Renamed(), "regression"),
        (None, Smoothed(from_logits=True), "logits"),
        ("exponential", "poisson", "regression"),
        (None, losses.CosineSimilarity(), "regression"),
        (None, functools.partial(losses.huber, delta=2.0), "regression"),
        (None, tfvn.losses.GaussianNLL(scale=1.0), Normal(1.0)),
        (None, tfvn.losses.LaplaceNLL(), Laplace()),
        (None, tfvn.losses.PoissonNLL(), Poisson()),
        ("softplus", tfvn.losses.GaussianNLL(scale=2.0), Normal(2.0)),
    ],
)
def test_what_is_certain_is_inferred(activation, loss, kind):
    assert find_kinds(compiled(activation, loss), "auto") == [kind]


@pytest.mark.parametrize(
    ("activation", "loss"),
    [
        (None, None),
        (None, own),
        (None, Own()),
        (None, functools.partial(own)),
        (None, SoftmaxBrier()),
        (None, Forgetful(from_logits=True)),
        ("relu", own),
        # The scores of a hinge loss are no probabilities.
        (None, "hinge"),
        ("tanh", "squared_hinge"),
        (None, losses.CategoricalHinge()),
        (None, losses.Dice()),
        # Activation and loss contradict each other.
        ("softmax", losses.CategoricalCrossentropy(from_logits=True)),
        ("sigmoid", losses.BinaryCrossentropy(from_logits=True)),
        ("relu", "categorical_crossentropy"),
        ("relu", losses.SparseCategoricalCrossentropy(from_logits=True)),
        ("tanh", "binary_crossentropy"),
        (tf.nn.relu, "binary_crossentropy"),
        ("squareplus", "categorical_crossentropy"),
        (None, "categorical_crossentropy"),
        (None, "kl_divergence"),
        ("sigmoid", "categorical_crossentropy"),
        # A probability, or a number between 0 and 1.
        ("sigmoid", "mse"),
        ("sigmoid", tfvn.losses.GaussianNLL(scale=0.1)),
    ],
)
def test_what_is_not_certain_is_asked_for(activation, loss):
    model = compiled(activation, loss)
    with pytest.raises(
        ValueError, match=r"what the model's outputs are; pass `outputs="
    ):
        find_kinds(model, "auto")
    with pytest.raises(ValueError, match="Received: outputs='auto', loss="):
        tfvn.ensemble_predict(model, X)
    assert find_kinds(model, "logits") == ["logits"]


class TestAxes:
    def model(self, last):
        inputs = keras.Input((FEATURES,))
        hidden = layers.Reshape((2, 3))(models.mean_field("local", 6)(inputs))
        return keras.Model(inputs, last(hidden))

    @pytest.mark.parametrize(
        "last",
        [
            layers.Softmax(axis=1),
            layers.Softmax(axis=-2),
            layers.Softmax(axis=(1, 2)),
            layers.Activation(functools.partial(keras.activations.softmax, axis=1)),
        ],
    )
    def test_classes_on_another_axis_are_refused(self, last):
        model = self.model(last)
        for told in ("auto", "probabilities"):
            with pytest.raises(ValueError, match=r"last axis.*Permute.*outputs="):
                tfvn.ensemble_predict(model, X, outputs=told)
        assert tfvn.ensemble_predict(model, X, outputs="regression").entropy is None

    @pytest.mark.parametrize("axis", [1, -2])
    @pytest.mark.parametrize(
        "loss",
        [
            losses.CategoricalCrossentropy,
            losses.SparseCategoricalCrossentropy,
            losses.CategoricalFocalCrossentropy,
            functools.partial(functools.partial, losses.categorical_crossentropy),
            functools.partial(
                functools.partial, losses.sparse_categorical_crossentropy
            ),
        ],
    )
    def test_losses_of_classes_on_another_axis_are_refused(self, loss, axis):
        model = self.model(layers.Activation("linear"))
        model.compile("sgd", loss(from_logits=True, axis=axis))
        for told in ("auto", "logits"):
            with pytest.raises(ValueError, match=r"last axis.*Permute.*outputs=.*loss"):
                find_kinds(model, told)
        assert find_kinds(model, "regression") == ["regression"]
        for last in (2, -1):
            model.compile("sgd", loss(from_logits=True, axis=last))
            assert find_kinds(model, "auto") == ["logits"]

    @pytest.mark.parametrize("last", [layers.Softmax(axis=2), layers.Softmax()])
    def test_entropy_for_each_step(self, last):
        answer = tfvn.ensemble_predict(self.model(last), X, return_samples=True)
        p = answer.samples.mean(axis=1)
        np.testing.assert_allclose(answer.entropy, -(p * np.log(p)).sum(-1), atol=1e-5)
        assert answer.entropy.shape == (6, 2)

    def test_time_distributed_layers_say_what_they_are(self):
        model = self.model(layers.TimeDistributed(layers.Dense(4, "softmax")))
        assert find_kinds(model, "auto") == ["probabilities"]
        model = self.model(layers.TimeDistributed(tfvn.layers.NormalHead(1)))
        answer = tfvn.ensemble_predict(model, X)
        assert answer.interval(0.9)[0].shape == (6, 2, 1)


def test_nested_and_shared_layers_and_activation_layers_tell():
    inner = sequential(models.mean_field("local"))
    inputs = keras.Input((FEATURES,))
    assert find_kinds(keras.Model(inputs, inner(inputs)), "auto") == ["probabilities"]
    for last in (layers.Softmax(), layers.Activation("softmax")):
        model = compiled()
        model.add(last)
        assert find_kinds(model, "auto") == ["probabilities"]
    shared = layers.Dense(1, "sigmoid")
    outputs = [shared(models.mean_field("local")(inputs)) for _ in range(2)]
    model = keras.Model(inputs, outputs)
    assert find_kinds(model, "auto") == ["binary_probabilities"] * 2
    # What a `Lambda` does is not known, so that the loss has the say.
    model = compiled()
    model.add(layers.Lambda(lambda x: x))
    with pytest.raises(ValueError, match="outputs="):
        find_kinds(model, "auto")
    model.compile("sgd", "categorical_crossentropy")
    assert find_kinds(model, "auto") == ["probabilities"]


def test_an_activation_inside_a_layer_of_ones_own_says_nothing():
    class Block(keras.Layer):
        def __init__(self):
            super().__init__()
            self.activation = keras.activations.softmax

        def call(self, inputs):
            return keras.ops.sum(self.activation(inputs), axis=-1, keepdims=True)

    model = compiled()
    model.add(Block())
    with pytest.raises(ValueError, match="outputs="):
        find_kinds(model, "auto")


class TestSeveralOutputs:
    NAMES = ("size", "digit")

    def model(self, form, keys=NAMES):
        inputs = keras.Input((FEATURES,))
        hidden = models.mean_field("local")(inputs)
        size = layers.Dense(1, name="size")(hidden)
        digit = layers.Dense(CLASSES, name="digit")(hidden)
        if form == "list":
            return keras.Model(inputs, [size, digit])
        return keras.Model(inputs, dict(zip(keys, (size, digit), strict=True)))

    CROSSENTROPY = losses.SparseCategoricalCrossentropy(from_logits=True)

    def check(self, model, names, outputs="auto"):
        """Sizes have no entropy, and digits do."""
        answer = tfvn.ensemble_predict(model, X, num_samples=2, outputs=outputs)
        size, digit = (answer[name] for name in names)
        assert size.entropy is None
        assert digit.entropy is not None

    def test_losses_by_name(self):
        by_name = {"size": "mse", "digit": self.CROSSENTROPY}
        model = self.model("list")
        model.compile("sgd", by_name)
        self.check(model, (0, 1))
        # Keys need not be the names of layers.
        model = self.model("dictionary", ("amount", "class"))
        model.compile("sgd", {"amount": "mse", "class": self.CROSSENTROPY})
        self.check(model, ("amount", "class"))

    def test_losses_in_a_list(self):
        model = self.model("list")
        model.compile("sgd", ["mse", self.CROSSENTROPY])
        self.check(model, (0, 1))
        # Keras packs a list into a dictionary by its sorted keys.
        model = self.model("dictionary")
        model.compile("sgd", [self.CROSSENTROPY, "mse"])
        self.check(model, self.NAMES)

    def test_one_loss_for_all(self):
        model = self.model("list")
        model.compile("sgd", "mse")
        assert find_kinds(model, "auto") == ["regression"] * 2

    def test_an_output_without_a_loss(self):
        model = self.model("dictionary")
        model.compile("sgd", {"size": tfvn.losses.GaussianNLL(scale=1.0)})
        with pytest.raises(ValueError, match=r"output 'digit'.*pass `outputs="):
            find_kinds(model, "auto")
        assert find_kinds(model, {"digit": "logits"}) == ["logits", Normal(1.0)]
        model = self.model("list")
        model.compile("sgd", ["mse", None])
        self.check(model, (0, 1), {"digit": "logits"})
        self.check(model, (0, 1), ["auto", "logits"])

    def test_kinds_of_a_dictionary_are_told_by_name(self):
        model = self.model("dictionary")
        self.check(model, self.NAMES, {"size": "regression", "digit": "logits"})
        with pytest.raises(ValueError, match=r"must be a dictionary.*no order"):
            tfvn.ensemble_predict(model, X, outputs=["regression", "logits"])
        with pytest.raises(ValueError, match=r"\['digit', 'size'\].*'digits'"):
            find_kinds(model, {"digits": "logits"})

    def test_as_many_as_outputs(self):
        with pytest.raises(ValueError, match="each of 2 outputs"):
            find_kinds(self.model("list"), ["logits"])

    def test_a_subclassed_model(self):
        class Two(keras.Model):
            def __init__(self, form):
                super().__init__()
                self.hidden = models.mean_field("local")
                self.size, self.digit = layers.Dense(1), layers.Dense(CLASSES)
                self.form = form

            def call(self, inputs):
                hidden = self.hidden(inputs)
                both = (self.size(hidden), self.digit(hidden))
                names = TestSeveralOutputs.NAMES
                return both if self.form == "list" else dict(zip(names, both))  # noqa: B905

        model = Two("dictionary")
        self.check(model, self.NAMES, {"size": "regression", "digit": "logits"})
        with pytest.raises(ValueError, match="must be a dictionary"):
            tfvn.ensemble_predict(model, X, outputs=["logits", "regression"])
        model.compile("sgd", {"size": "mse", "digit": self.CROSSENTROPY})
        self.check(model, self.NAMES)
        self.check(Two("list"), (0, 1), ["regression", "logits"])


class TestDistributions:
    def test_what_is_known_of_a_scale_is_kept(self):
        model = compiled(None, tfvn.losses.GaussianNLL(scale=0.3))
        assert find_kinds(model, "normal") == [Normal(0.3)]
        assert find_kinds(model, "laplace") == [Laplace()]
        assert find_kinds(model, Normal(2.0)) == [Normal(2.0)]

    @pytest.mark.parametrize(
        "last",
        [tfvn.layers.NormalHead(2), tfvn.layers.LearnedScale(), "nested"],
        ids=lambda last: type(last).__name__,
    )
    def test_the_last_layer_alone_tells(self, last):
        if last == "nested":
            last = keras.Sequential([tfvn.layers.LikelihoodHead(1, Normal())])
        model = compiled()
        model.add(last)
        assert find_kinds(model, "auto") == [Normal()]

    @pytest.mark.parametrize("kind", ["gamma", 3, None, ["auto", "gamma"]])
    def test_unknown_kinds_are_refused(self, kind):
        with pytest.raises(ValueError, match=r"Argument `outputs`.*Received: outputs="):
            find_kinds(compiled(), kind)

    def test_outputs_of_another_size_are_refused(self):
        with pytest.raises(ValueError, match="2 numbers for each target"):
            tfvn.ensemble_predict(compiled(), X, outputs="normal")
