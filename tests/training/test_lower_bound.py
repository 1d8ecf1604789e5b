"""The evidence lower bound, averaged over draws of the noise."""

import keras
import numpy as np
import pytest
from tensorflow_probability import distributions as tfd

import tfvn

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 4)).astype("float32")
Y = RNG.integers(3, size=24)
LOGITS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def classifier(last=None, loss=LOGITS, **kwargs):
    last = last or tfvn.MeanFieldDense(3, **kwargs)
    model = tfvn.Sequential([keras.Input((4,)), keras.layers.Dense(5, "tanh"), last])
    model.compile("adam", loss, jit_compile=False)
    return model


def log_softmax(logits):
    logits = logits.astype("float64")
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def test_against_numpy():
    model = classifier(prior=tfd.Normal(0.0, 0.3))
    bound = tfvn.evidence_lower_bound(model, X, Y, num_samples=7, seed=3)
    drawn = tfvn.ensemble_predict(
        model, X, 7, 256, seed=3, return_samples=True, outputs="regression"
    ).samples
    chosen = log_softmax(drawn)[np.arange(24), :, Y]  # (rows, draws)
    assert bound.data_term == pytest.approx(chosen.mean(axis=1).sum(), rel=1e-5)
    # KL of Normals to the prior N(0, s^2), summed over the weights.
    q, s = model.layers[1].posterior_distribution(), 0.3
    mean, scale = (np.asarray(v, "float64") for v in (q.loc, q.scale))
    kl = np.log(s / scale) + (scale**2 + mean**2) / (2 * s**2) - 0.5
    assert bound.kl == pytest.approx(kl.sum(), rel=1e-5)
    assert bound.elbo == bound.data_term - bound.kl


@pytest.mark.parametrize(
    ("loss", "activation", "targets"),
    [
        ("sparse_categorical_crossentropy", "softmax", Y),
        (keras.losses.CategoricalCrossentropy(), "softmax", np.eye(3)[Y]),
        ("mse", None, RNG.normal(size=(24, 3))),
    ],
)
def test_any_loss_is_averaged_as_in_evaluate(loss, activation, targets):
    # Without noise to speak of, one pass and many draws are the same.
    last = tfvn.MeanFieldDense(3, activation, scale_initializer=1e-8)
    model = classifier(last, loss)
    bound = tfvn.evidence_lower_bound(model, X, targets, num_samples=2)
    model.fit(X, targets, epochs=0, verbose=0)
    nll = model.evaluate(X, targets, verbose=0, return_dict=True)["nll"]
    assert bound.data_term == pytest.approx(-24 * nll, rel=1e-4)


def test_draws_are_averaged():
    model = classifier(scale_initializer=0.5)
    many = [
        tfvn.evidence_lower_bound(model, X, Y, num_samples=1, seed=seed).data_term
        for seed in range(40)
    ]
    average = tfvn.evidence_lower_bound(model, X, Y, num_samples=400, seed=0).data_term
    assert np.std(many) > 0.1
    error = np.std(many) * np.sqrt(1 / 40 + 1 / 400)
    assert abs(np.mean(many) - average) < 4 * error


@pytest.mark.exhaustive
def test_an_estimated_kl_is_averaged_and_training_not_affected():
    model = classifier(prior="student_t", scale_initializer=0.5)
    states = [v.numpy() for v in model.non_trainable_variables]
    kls = [
        tfvn.evidence_lower_bound(model, X, Y, num_samples=n, seed=1).kl
        for n in (1, 2, 2, 300)
    ]
    assert kls[0] != kls[1]
    assert kls[1] == kls[2]
    for variable, state in zip(model.non_trainable_variables, states, strict=True):
        np.testing.assert_array_equal(variable.numpy(), state)


def test_batch_statistics():
    layers = [tfvn.VarianceDense(5), keras.layers.BatchNormalization()]
    model = tfvn.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(3)])
    model.compile("adam", LOGITS)
    moving, batch = (
        tfvn.evidence_lower_bound(model, 9 * X, Y, seed=0, batch_statistics=mode)
        for mode in (False, True)
    )
    assert moving.kl == batch.kl == 0.0
    assert abs(moving.data_term - batch.data_term) > 1.0


def test_callback_logs_the_bound_at_the_end_of_epochs():
    model = classifier()
    watch = tfvn.callbacks.EvidenceLowerBound((X, Y), 3, every=2, seed=5)
    history = model.fit(X, Y, epochs=4, callbacks=[watch], verbose=0).history
    assert np.isnan(history["lower_bound"]).tolist() == [True, False, True, False]
    bound = tfvn.evidence_lower_bound(model, X, Y, num_samples=3, seed=5)
    last = [history[name][-1] for name in ("lower_bound", "data_term", "kl_term")]
    np.testing.assert_allclose(last, bound, rtol=1e-6)


def test_callback_does_not_change_training():
    def trained(callbacks):
        keras.utils.set_random_seed(0)
        model = classifier()
        model.fit(X, Y, epochs=2, callbacks=callbacks, verbose=0)
        return model.get_weights()

    plain, watched = (
        trained(callbacks)
        for callbacks in ([], [tfvn.callbacks.EvidenceLowerBound((X, Y), 2)])
    )
    for one, other in zip(plain, watched, strict=True):
        np.testing.assert_array_equal(one, other)


class TestMistakes:
    def test_not_compiled(self):
        model = tfvn.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(3)])
        with pytest.raises(ValueError, match="must be compiled with one `loss`"):
            tfvn.evidence_lower_bound(model, X, Y)

    def test_targets_of_another_length(self):
        with pytest.raises(ValueError, match="Received: 3 targets for 24 rows"):
            tfvn.evidence_lower_bound(classifier(), X, Y[:3])

    def test_no_examples(self):
        with pytest.raises(ValueError, match="at least one example"):
            tfvn.evidence_lower_bound(classifier(), X[:0], Y[:0])

    def test_a_loss_for_each_time_step(self):
        # The loss leaves masked steps out, and the predictions do not say which they are.
        layers = [keras.Input((5, 4)), keras.layers.Masking(), tfvn.MeanFieldDense(1)]
        model = tfvn.Sequential(layers)
        model.compile("adam", "mse")
        x, y = np.zeros((3, 5, 4)), np.ones((3, 5, 1))
        with pytest.raises(ValueError, match="one number for each example"):
            tfvn.evidence_lower_bound(model, x, y)

    def test_several_outputs(self):
        inputs = keras.Input((4,))
        outputs = [tfvn.MeanFieldDense(3)(inputs), tfvn.MeanFieldDense(3)(inputs)]
        model = tfvn.Model(inputs, outputs)
        model.compile("adam", "mse")
        with pytest.raises(ValueError, match="must have one output"):
            tfvn.evidence_lower_bound(model, X, Y)

    def test_data_of_the_callback(self):
        with pytest.raises(ValueError, match="a tuple `\\(x, y\\)` of arrays"):
            tfvn.callbacks.EvidenceLowerBound(X)
