"""What users see if an argument is wrong: one sentence that names it, and no foreign error."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import bijectors as tfb
from tensorflow_probability import distributions as tfd

import tfvn

X = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
Y = np.array([0, 1, 2, 0, 1, 2])
STRINGS = np.full((6, 4), "a")


def model_of(activation=None, **kwargs):
    layer = tfvn.MeanFieldDense(3, activation, **kwargs)
    return tfvn.Sequential([keras.Input((4,)), layer])


def compiled():
    model = model_of()
    model.compile("sgd", "mse", run_eagerly=True)
    return model


def answer():
    model = tfvn.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(2)])
    return tfvn.ensemble_predict(model, X, 2, outputs="normal")


CASES = {
    # Constructors.
    "initial_log_alpha": (
        lambda: tfvn.GaussianDropoutDense(3, initial_log_alpha="a"),
        r"`initial_log_alpha` must be a finite number .*initial_log_alpha='a'",
    ),
    "noise_law": (
        lambda: tfvn.distributions.noise_law("gaussian", std=3),
        r"must be some of \['mean', 'stddev'\]. Received: std=3",
    ),
    "mean of a noise": (
        lambda: tfvn.distributions.noise_law("gaussian", mean="a"),
        r"`mean` must be a finite number. Received: mean='a'",
    ),
    "degrees of freedom": (
        lambda: tfvn.distributions.DiminishingStudentT("a"),
        r"`df` must be a finite number greater than 0. Received: df='a'",
    ),
    "noise of a layer": (
        lambda: tfvn.distributions.noise_law("rayleigh", scale=1, stddev=3),
        r"must be some of \['scale'\]. Received: stddev=3",
    ),
    "equation": (
        lambda: tfvn.VarianceEinsumDense("abc", output_shape=3),
        "`equation` must have the axes .* Received: equation='abc'",
    ),
    "equation of another type": (
        lambda: tfvn.VarianceEinsumDense(3, output_shape=3),
        "`equation` must have the axes .* Received: equation=3",
    ),
    "discrete prior": (
        lambda: tfvn.MeanFieldDense(3, prior=tfd.Poisson(2.0)),
        "a density, such as `tfd.Normal`. Received: prior=.*Poisson",
    ),
    "prior of integers": (
        lambda: tfvn.VarianceDense(3, prior=tfd.Bernoulli(0.5)),
        "a density, such as `tfd.Normal`. Received: prior=.*Bernoulli",
    ),
    "prior of one value": (
        lambda: tfvn.MeanFieldDense(3, prior=tfd.Deterministic(0.5)),
        "a density, such as `tfd.Normal`. Received: prior=.*Deterministic",
    ),
    "backup_dir": (
        lambda: tfvn.callbacks.BackupAndRestore(None),
        "`backup_dir` must be the path of a folder.* Received: backup_dir=None",
    ),
    # Functions of models.
    "zero_mean_predict": (
        lambda: tfvn.zero_mean_predict(3, X),
        "`model` must be a `keras.Model`. Received: model=int",
    ),
    "variable_groups": (
        lambda: tfvn.variable_groups(3),
        "`model` must be a Keras model or layer. Received: model=3",
    ),
    "path": (
        lambda: tfvn.export_ensemble(model_of(), None),
        "`path` must be the directory of a model.* Received: path=None",
    ),
    "path of another type": (
        lambda: tfvn.export_ensemble(model_of(), 3),
        "`path` must be the directory of a model.* Received: path=3",
    ),
    "seed": (
        lambda: tfvn.sample_model(model_of(), seed=np.zeros((3, 2), int)),
        "`seed` must be an integer or `None`. Received: seed=array",
    ),
    "seed of rows": (
        lambda: tfvn.ensemble_predict(model_of(), X, seed="a"),
        "`None`, or an array of two integers for each row. Received: seed='a'",
    ),
    "verbose": (
        lambda: tfvn.ensemble_predict(model_of(), X, verbose="loud"),
        r"`verbose` must be one of \['auto', 0, 1, 2\]. Received: verbose='loud'",
    ),
    "strings": (
        lambda: tfvn.ensemble_predict(model_of(), STRINGS),
        "`x` must have numbers for the input .*float32. Received: x of type <U1",
    ),
    "strings of TensorFlow": (
        lambda: tfvn.mean_predict(model_of(), tf.constant(STRINGS)),
        "`x` must have numbers for the input .*float32. Received: x of type object",
    ),
    "lists": (
        lambda: tfvn.ensemble_predict(model_of(), X.tolist()),
        r"Received: x of shapes \[\(\), \(\), \(\), \(\), \(\)\], and [0-9,]+ more$",
    ),
    "outputs": (
        lambda: tfvn.ensemble_predict(model_of(), X, outputs="probabilities"),
        "pass `outputs='logits'`.* Received: outputs='probabilities' and .* from -",
    ),
    # Training.
    "fit without data": (
        lambda: compiled().fit(None, Y),
        "`x` must be the training data.* Received: x=None",
    ),
    "fit of a number": (
        lambda: compiled().fit(3, Y),
        "`x` must be the training data.* Received: x=3",
    ),
    "fit of lists": (
        lambda: compiled().fit(X.tolist(), Y),
        "lists of numbers with `numpy.asarray`. Received: x=a list",
    ),
    "fit of strings": (
        lambda: compiled().fit(STRINGS, Y),
        "expected numbers in `x` .*Received: x of type <U1",
    ),
    "verbose of fit": (
        lambda: compiled().fit(X, X[:, :3], verbose="loud"),
        "`verbose` must be one of .* Received: verbose='loud'",
    ),
    "optimizer": (
        lambda: model_of().compile({}, "mse"),
        r"for at least one of the groups .* Received: optimizer=\{\}",
    ),
    # Predictions and metrics.
    "log_prob": (
        lambda: answer().log_prob("a"),
        "Targets must be numbers.* Received: targets of type str, 'a'",
    ),
    "cdf": (
        lambda: answer().cdf(np.full(6, "a")),
        "Targets must be numbers.* Received: targets of type ndarray, array",
    ),
    "CRPS of other rows": (
        lambda: tfvn.metrics.CRPS().update_state(np.zeros(5), np.zeros((6, 4, 3))),
        r"`y_true` must have the shape \(6, 3\).* y_true of shape \(5,\)",
    ),
    "CRPS of strings": (
        lambda: tfvn.metrics.CRPS().update_state(np.zeros(6), STRINGS),
        "`y_pred` must be numbers. Received: y_pred of type <U1",
    ),
    "strings as classes": (
        lambda: tfvn.metrics.BrierScore().update_state(Y, STRINGS),
        "`y_pred` must be numbers. Received: y_pred of type string",
    ),
    "strings as scores": (
        lambda: tfvn.metrics.OODAUROC().update_state(Y > 1, STRINGS[:, 0]),
        "`y_pred` must be numbers. Received: y_pred of type string",
    ),
    "strings as labels": (
        lambda: tfvn.metrics.OODAUROC().update_state(STRINGS[:, 0], X[:, 0]),
        "`y_true` must be numbers. Received: y_true of type string",
    ),
    "scores without classes": (
        lambda: tfvn.metrics.EnsembleNLL().update_state(Y, X[:, 0]),
        r"`y_pred` must be draws of shape .* Received: y_pred of shape \(6,\)$",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_names_the_argument(case):
    function, words = CASES[case]
    with pytest.raises(ValueError, match=words) as error:
        function()
    assert "\n\n" not in str(error.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tfvn.VarianceConv2D(3), "`VarianceConv2D`: .*'kernel_size'. .* 3$"),
        (lambda: tfvn.KTiedDense(), "`KTiedDense`: .*'units'. Received: nothing"),
        (
            lambda: tfvn.MeanFieldLSTM(use_bias=True),
            "`MeanFieldLSTM`: .*'units'. Received: use_bias=True",
        ),
    ],
)
def test_names_what_is_missing(make, words):
    with pytest.raises(TypeError, match=words):
        make()


def test_priors_with_a_density_are_taken():
    mixture = tfd.MixtureSameFamily(
        tfd.Categorical(probs=[0.5, 0.5]), tfd.Normal([0.0, 0.0], [1.0, 0.1])
    )
    moved = tfd.TransformedDistribution(tfd.Normal(0.0, 1.0), tfb.Shift(1.0))
    for prior in (mixture, moved, tfd.Gamma(2.0, 1.0), tfd.Cauchy(0.0, 1.0)):
        tfvn.MeanFieldDense(3, prior=prior)


def test_probabilities_in_half_precision_are_taken():
    layer = keras.layers.Dense(3, "softmax", dtype="mixed_bfloat16")
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dropout(0.5), layer])
    found = tfvn.ensemble_predict(model, X, 2, outputs="probabilities").mean
    np.testing.assert_allclose(found.sum(-1), 1.0, atol=0.02)


@pytest.mark.parametrize("verbose", ["auto", 0, 1, 2, True, False, np.int64(0)])
def test_values_of_verbose(verbose, capsys):
    tfvn.ensemble_predict(model_of(), X, 2, outputs="regression", verbose=verbose)
