"""Tied copies of models: scales of low rank, and everything else as it was."""

import keras
import numpy as np
import pytest
from keras import layers
from tensorflow_probability import distributions as tfd
from tying_models import FEATURES, OPS, X, Y, mlp, scales, trained

import tfvn
from tfvn.layers.base import stochastic_layers


def truncated(matrix, rank):
    u, s, v = np.linalg.svd(np.asarray(matrix, "float64"), full_matrices=False)
    return (u[:, :rank] * s[:rank]) @ v[:rank]


@pytest.mark.parametrize("op", OPS)
class TestOps:
    def model(self, op, family):
        arguments, shape, _ = OPS[op]
        layer = getattr(tfvn, f"{family}{op}")(**arguments, name="tied")
        return trained(tfvn.Sequential([keras.Input(shape), layer]))

    def weights(self, op):
        is_recurrent = op in ("LSTM", "GRU")
        return ("kernel", "recurrent_kernel") if is_recurrent else ("kernel",)

    def test_truncated_decomposition_against_numpy(self, op):
        model = self.model(op, "MeanField")
        tied = tfvn.tie(model, 2, "mean_field")
        as_matrix = OPS[op][2]
        for weight in self.weights(op):
            old, new = (as_matrix(scales(m.layers[0], weight)) for m in (model, tied))
            expected = np.maximum(truncated(old, 2), 0.1 * old.min())
            np.testing.assert_allclose(new, expected, rtol=1e-4)

    def test_scales_of_the_rank_survive(self, op):
        """A mean-field layer with the scales of a 2-tied one becomes that layer."""
        model, other = self.model(op, "KTied"), self.model(op, "MeanField")
        for weight in self.weights(op):
            wanted = scales(model.layers[0], weight)
            (variance,) = [
                v
                for v in other.trainable_variables
                if v.name == f"{weight}_log_variance"
            ]
            variance.assign(2 * np.log(wanted))
        tied = tfvn.tie(other, 2)
        assert type(tied.layers[0]) is type(model.layers[0])
        for weight in self.weights(op):
            # Of many factorisations, and perhaps not quite at the end of the search.
            new, wanted = (scales(m.layers[0], weight) for m in (tied, model))
            assert np.linalg.norm(new - wanted) < 3e-3 * np.linalg.norm(wanted)
            q, p = (m.layers[0].posterior_distribution(weight) for m in (tied, other))
            np.testing.assert_array_equal(q.mean(), p.mean())

    def test_k_tied_to_a_smaller_rank(self, op):
        model = self.model(op, "KTied")
        tied = tfvn.tie(model, 1)
        for weight in self.weights(op):
            old, new = (OPS[op][2](scales(m.layers[0], weight)) for m in (model, tied))
            np.testing.assert_allclose(new, truncated(old, 1), rtol=1e-3)


class TestWhatIsKept:
    def test_arguments_and_values(self):
        prior = tfd.Laplace(0.0, 0.5)
        model = mlp(
            prior=prior,
            bias_posterior="mean_field",
            estimator="flipout",
            kl_weight=0.25,
            kernel_regularizer="l2",
            kl_method="monte_carlo",
            seed=7,
        )
        model.layers[0].kl_weight.assign(0.5)
        model.layers[2].trainable = False
        before = [weight.copy() for weight in model.get_weights()]
        for posterior in ("k_tied", "mean_field"):
            tied = tfvn.tie(model, 2, posterior)
            for old, new in zip(model.layers, tied.layers, strict=True):
                was, now = old.get_config(), new.get_config()
                own = ("rank", "scale_initializer")
                assert {k: v for k, v in was.items() if k not in own} == {
                    k: v for k, v in now.items() if k not in own
                }
            first = tied.layers[0]
            assert float(first.kl_weight.numpy()) == 0.5
            assert not tied.layers[2].trainable
            mean = first.posterior.mean_variable
            np.testing.assert_array_equal(mean, model.layers[0].posterior.mean())
            for moment in ("mean", "stddev"):
                old, new = (
                    getattr(m.layers[0].posterior_distribution("bias"), moment)()
                    for m in (model, tied)
                )
                np.testing.assert_array_equal(old, new)
            np.testing.assert_array_equal(tied.layers[1].gamma, model.layers[1].gamma)
        for now, then in zip(model.get_weights(), before, strict=True):
            np.testing.assert_array_equal(now, then)

    def test_generic_layers_stay_generic_and_keep_a_scale_initializer(self):
        posterior = tfvn.posteriors.MeanField(scale_initializer=0.2)
        layer = tfvn.layers.Dense(4, posterior=posterior, use_bias=False)
        model = trained(keras.Sequential([keras.Input((FEATURES,)), layer]))
        tied = tfvn.tie(model, 2)
        assert isinstance(tied, tfvn.Sequential)
        assert type(tied.layers[0]) is tfvn.layers.Dense
        assert tied.layers[0].posterior.rank == 2
        kept = tfvn.tie(model, 2, "mean_field").layers[0].posterior
        assert kept.scale_initializer.value == 0.2

    def test_the_same_noise_gives_the_same_predictions(self):
        """If the scales have the rank already."""
        model = mlp()
        for layer in stochastic_layers(model):
            spectrum = truncated(scales(layer), 2)
            layer.posterior.log_variance_variable.assign(
                2 * np.log(np.maximum(spectrum, 1e-3))
            )
        once = tfvn.tie(model, 2, "mean_field")
        twice = tfvn.tie(once, 2, "mean_field")
        answers = [
            tfvn.ensemble_predict(m, X, 5, seed=1, outputs="regression").mean
            for m in (once, twice, tfvn.tie(once, 4))
        ]
        np.testing.assert_allclose(answers[0], answers[1], atol=1e-4)
        np.testing.assert_allclose(answers[0], answers[2], atol=2e-2)

    def test_additive_gaussian_dropout_keeps_its_prior(self):
        layer = tfvn.GaussianDropoutDense(
            4, parameterization="additive", bias_posterior="mean_field", name="a"
        )
        model = trained(tfvn.Sequential([keras.Input((FEATURES,)), layer]))
        tied = tfvn.tie(model, 4, "mean_field").layers[0]
        assert type(tied) is tfvn.MeanFieldDense
        np.testing.assert_allclose(scales(tied), scales(layer), rtol=1e-4)
        np.testing.assert_allclose(
            tied.kl_divergence(), layer.kl_divergence(), rtol=1e-4
        )

    def test_k_tied_layers_of_a_smaller_rank_are_copied(self):
        layer = tfvn.KTiedDense(4, rank=1)
        model = trained(tfvn.Sequential([keras.Input((FEATURES,)), layer]))
        tied = tfvn.tie(model, 2).layers[0]
        assert tied.posterior.rank == 1
        np.testing.assert_array_equal(scales(tied), scales(layer))
        as_mean_field = tfvn.tie(model, 2, "mean_field").layers[0]
        np.testing.assert_allclose(scales(as_mean_field), scales(layer), rtol=1e-5)


def inside_of_wrappers():
    inputs = keras.Input((3, FEATURES))
    x = layers.TimeDistributed(tfvn.MeanFieldDense(5, name="in_time"))(inputs)
    x = layers.Bidirectional(tfvn.MeanFieldLSTM(3, name="lstm"))(x)
    return tfvn.Model(inputs, x), np.ones((2, 3, FEATURES), "float32")


def cells():
    cell = layers.RNN([tfvn.MeanFieldLSTMCell(3), tfvn.MeanFieldGRUCell(2)])
    return keras.Sequential([keras.Input((3, FEATURES)), cell]), np.ones(
        (2, 3, FEATURES), "float32"
    )


def shared_and_nested():
    inner = keras.Sequential([keras.Input((FEATURES,)), tfvn.MeanFieldDense(FEATURES)])
    shared = tfvn.MeanFieldDense(FEATURES, name="shared")
    first, second = keras.Input((FEATURES,)), keras.Input((FEATURES,))
    outputs = {"a": shared(inner(first)), "b": shared(second)}
    return keras.Model([first, second], outputs), [X, X]


def head():
    last = tfvn.layers.NormalHead(2, posterior="mean_field", kl_weight=0.5)
    return tfvn.Sequential([keras.Input((FEATURES,)), last]), X


@pytest.mark.parametrize("make", [inside_of_wrappers, cells, shared_and_nested, head])
@pytest.mark.parametrize("posterior", ["k_tied", "mean_field"])
def test_in_models_of_all_kinds(make, posterior, tmp_path):
    model, x = make()
    trained(model)
    tied = tfvn.tie(model, 2, posterior)
    pairs = list(zip(stochastic_layers(model), stochastic_layers(tied), strict=True))
    assert pairs
    for old, new in pairs:
        for weight in old.kernels:
            assert np.linalg.matrix_rank(scales(new, weight), tol=1e-3) <= 2
            error = np.linalg.norm(scales(new, weight) - scales(old, weight))
            tail = np.linalg.svd(scales(old, weight))[1][2:]
            assert error <= 1.3 * np.linalg.norm(tail) + 1e-3
        if old.bias is not None:
            np.testing.assert_array_equal(new.bias, old.bias)
    for one, other in zip(
        keras.tree.flatten(tfvn.mean_predict(model, x)),
        keras.tree.flatten(tfvn.mean_predict(tied, x)),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, atol=1e-5)
    tied.save(tmp_path / "tied.keras")
    loaded = keras.models.load_model(tmp_path / "tied.keras")
    for old, new in zip(
        stochastic_layers(tied), stochastic_layers(loaded), strict=True
    ):
        np.testing.assert_array_equal(scales(old), scales(new))


@pytest.mark.exhaustive
def test_is_trained_further_predicted_with_and_exported(tmp_path):
    model = mlp()
    optimizer = {"mean": "adam", "scale": "sgd"}
    model.compile(optimizer, "mse", kl_schedule=0.5, jit_compile=False)
    model.fit(X, Y, verbose=0)
    tied = tfvn.tie(model, 2)
    before = scales(tied.layers[0])
    history = tied.fit(X, Y, epochs=2, verbose=0).history
    assert np.isfinite(history["elbo"]).all()
    assert history["kl_weight"] == [0.5, 0.5]
    assert int(tied.training_state.size.numpy()) == len(X)
    assert not np.array_equal(scales(tied.layers[0]), before)
    answer = tfvn.ensemble_predict(tied, X, 3, outputs="regression")
    assert answer.mean.shape == (8, 4)
    path = tfvn.export_ensemble(tied, tmp_path / "tied", 2, outputs="regression")
    assert path is not None


def test_in_mixed_precision():
    keras.config.set_dtype_policy("mixed_bfloat16")
    tied = tfvn.tie(mlp(), 2)
    assert tied.layers[0].compute_dtype == "bfloat16"
    assert np.isfinite(scales(tied.layers[0])).all()


class TestLayers:
    def test_names_and_layers(self):
        model = mlp()
        for which in ("last", model.layers[2], ["last"], (model.layers[2],)):
            tied = tfvn.tie(model, 2, layers=which)
            kinds = [type(layer) for layer in stochastic_layers(tied)]
            assert kinds == [tfvn.MeanFieldDense, tfvn.KTiedDense]

    def test_all_keeps_what_cannot_be_tied(self):
        model = tfvn.Sequential(
            [
                keras.Input((FEATURES,)),
                tfvn.MeanFieldDense(4),
                tfvn.VarianceDense(4),
                tfvn.GaussianDropoutDense(4),
            ]
        )
        kinds = [type(layer) for layer in tfvn.tie(model).layers]
        assert kinds == [tfvn.KTiedDense, tfvn.VarianceDense, tfvn.GaussianDropoutDense]


class Own(tfvn.MeanFieldDense):
    def call(self, inputs, training=None):
        return 2.0 * super().call(inputs, training)


def variance():
    return tfvn.Sequential(
        [
            keras.Input((FEATURES,)),
            tfvn.VarianceDense(4, name="v"),
            tfvn.GaussianDropoutDense(4, name="g"),
        ]
    )


@pytest.mark.parametrize(
    ("make", "kwargs", "words"),
    [
        (mlp, {"rank": 0}, "Received: rank=0"),
        (mlp, {"rank": True}, "Received: rank=True"),
        (mlp, {"rank": 5}, "at most 4 for layer 'last'.* Received: rank=5"),
        (mlp, {"posterior": "variance"}, "Received: posterior='variance'"),
        (mlp, {"layers": "middle"}, r"\['first', 'last'\].* Received: 'middle'"),
        (mlp, {"layers": []}, r"at least one of the layers .* Received: layers=\[\]"),
        (mlp, {"layers": None}, "Received: None"),
        (variance, {}, "'v', a variance layer.*'g', a Gaussian-dropout layer"),
        (variance, {"layers": "g"}, "no others in `layers`.*multiples of its means"),
        (
            lambda: keras.Sequential([keras.Input((2,)), layers.Dense(2)]),
            {},
            "must have layers with random weights",
        ),
        (
            lambda: tfvn.prune(mlp(), fraction=0.5),
            {},
            "'first', a pruned layer; tie first, then prune the result",
        ),
        (
            lambda: tfvn.Sequential([tfvn.MeanFieldDense(2)]),
            {},
            "that has been built",
        ),
        (
            lambda: tfvn.Sequential([keras.Input((2,)), Own(2, name="own")]),
            {},
            "Received: layer 'own' of type Own",
        ),
    ],
)
def test_refuses(make, kwargs, words):
    with pytest.raises(ValueError, match=words):
        tfvn.tie(make(), **kwargs)
