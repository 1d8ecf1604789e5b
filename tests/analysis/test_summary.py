"""A summary says what is in a model, in the figures that NumPy finds."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import distributions as tfd

import tfvn
from tfvn.analysis.spread import spread_of

X = np.ones((8, 4), "float32")


def model_of(*layers, shape=(4,), kind=keras.Sequential):
    return kind([keras.Input(shape), *layers])


def row_of(model, name):
    (row,) = [row for row in tfvn.summary(model).rows if row.name == name]
    return row


class TestFigures:
    def test_snr_of_normal_weights(self):
        layer = tfvn.MeanFieldDense(3)
        model = model_of(layer)
        mean = np.random.default_rng(0).normal(size=(4, 3))
        scale = np.random.default_rng(1).uniform(0.1, 2.0, size=(4, 3))
        layer.posterior.mean_variable.assign(mean)
        layer.posterior.log_variance_variable.assign(2 * np.log(scale))
        (row,) = tfvn.summary(model).rows
        (weight,) = row.weights
        assert (weight.name, weight.measure) == ("kernel", "SNR")
        expected = np.quantile(np.abs(mean) / scale, [0.05, 0.5, 0.95])
        np.testing.assert_allclose(weight.quantiles, expected, rtol=1e-5)
        # The KL of Normals in closed form, to a prior of variance 2 / fan-in.
        variance = 2.0 / 4
        kl = 0.5 * ((scale**2 + mean**2) / variance - 1 - np.log(scale**2 / variance))
        assert row.kl == pytest.approx(kl.sum(), rel=1e-5)

    def test_snr_of_tied_scales(self):
        layer = tfvn.KTiedDense(3, rank=2)
        model = model_of(layer)
        left, right = (np.exp(v.numpy()) for v in layer.variable_groups["scale"])
        snr = np.abs(layer.posterior.mean_variable.numpy()) / (left @ right.T)
        (row,) = tfvn.summary(model).rows
        expected = np.quantile(snr, [0.05, 0.5, 0.95])
        np.testing.assert_allclose(row.weights[0].quantiles, expected, rtol=1e-5)
        assert row.parameters == {"mean": 12, "scale": 2 * 4 + 2 * 3, "other": 3}

    @pytest.mark.parametrize("alpha", ["layer", "neuron", "weight"])
    def test_log_alpha(self, alpha):
        layer = tfvn.GaussianDropoutDense(3, alpha=alpha)
        model = model_of(layer)
        variable = layer.posterior.log_alpha_variable
        log_alpha = np.random.default_rng(0).normal(size=variable.shape)
        variable.assign(log_alpha)
        (weight,) = tfvn.summary(model).rows[0].weights
        each = np.broadcast_to(log_alpha, (4, 3))
        assert weight.measure == "log alpha"
        expected = np.quantile(each, [0.05, 0.5, 0.95])
        np.testing.assert_allclose(weight.quantiles, expected, rtol=1e-5)

    def test_additive_log_alpha(self):
        layer = tfvn.GaussianDropoutDense(3, parameterization="additive")
        model = model_of(layer)
        mean = layer.posterior.mean_variable.numpy()
        log_variance = layer.posterior.log_variance_variable.numpy()
        expected = np.quantile(log_variance - np.log(mean**2), [0.05, 0.5, 0.95])
        (weight,) = tfvn.summary(model).rows[0].weights
        np.testing.assert_allclose(weight.quantiles, expected, rtol=1e-4)

    @pytest.mark.parametrize(("noise", "unit"), [("gaussian", 1), ("uniform", 3**-0.5)])
    def test_scale_of_variance_layers(self, noise, unit):
        layer = tfvn.VarianceDense(3, noise=noise)
        model = model_of(layer)
        scale = np.abs(layer.posterior.scale.numpy()) * unit
        (row,) = tfvn.summary(model).rows
        assert row.weights[0].measure == "scale"
        expected = np.quantile(scale, [0.05, 0.5, 0.95])
        np.testing.assert_allclose(row.weights[0].quantiles, expected, rtol=1e-5)
        assert row.kl == 0
        assert row.parameters == {"mean": 0, "scale": 12, "other": 3}

    def test_weights_that_are_zero(self):
        layer = tfvn.VarianceDense(3)
        model = model_of(layer)
        scale = np.array([[0, 0, 0], [1, -2, 3], [0, 0, 0], [0, 0, 0]])
        layer.posterior.scale.assign(scale)
        (weight,) = tfvn.summary(model).rows[0].weights
        assert weight.sparsity == 0.75
        np.testing.assert_allclose(
            weight.quantiles, np.quantile([1, 2, 3], [0.05, 0.5, 0.95])
        )
        # A scale whose square is zero in float32 is not zero.
        layer.posterior.scale.assign(np.where(scale, 1e-30, 0))
        (weight,) = tfvn.summary(model).rows[0].weights
        assert weight.sparsity == 0.75
        layer.posterior.scale.assign(np.zeros((4, 3)))
        (weight,) = tfvn.summary(model).rows[0].weights
        assert weight.sparsity == 1
        assert np.isnan(weight.quantiles).all()

    def test_a_mean_of_zero_is_no_zero_weight(self):
        layer = tfvn.MeanFieldDense(3)
        model_of(layer)
        layer.posterior.mean_variable.assign(np.zeros((4, 3)))
        spread = spread_of(layer.posterior)
        assert spread.sparsity == 0
        assert (spread.values == 0).all()

    def test_total_is_what_fit_logs(self):
        model = model_of(
            tfvn.MeanFieldDense(3, bias_posterior="mean_field"),
            tfvn.NoisyDense(3, prior_scale=0.5),
            tfvn.KTiedDense(1),
            kind=tfvn.Sequential,
        )
        model.compile(keras.optimizers.SGD(0.0), "mse")
        logged = model.fit(X, X[:, :1], verbose=0).history["kl"][0]
        assert tfvn.summary(model).total_kl == pytest.approx(logged, rel=1e-5)

    def test_estimates_say_so_and_leave_the_noise_alone(self):
        models = []
        for _ in range(2):
            keras.utils.set_random_seed(1)
            models.append(model_of(tfvn.MeanFieldDense(3, prior="horseshoe", seed=1)))
        first, second = (tfvn.summary(models[0]) for _ in range(2))
        assert first.total_kl == second.total_kl
        assert first.rows[0].is_estimated
        assert "KL: ~" in str(first)
        np.testing.assert_array_equal(models[0](X), models[1](X))


class TestModels:
    def test_wrapped_and_nested(self):
        layers = [keras.Input((4,)), tfvn.KTiedDense(4, name="a")]
        inner = keras.Sequential(layers, name="inner")
        lstm = tfvn.VarianceLSTM(2, name="lstm")
        gru = keras.layers.RNN(tfvn.MeanFieldGRUCell(2), name="rnn")
        model = model_of(
            keras.layers.TimeDistributed(inner, name="each"),
            keras.layers.Bidirectional(lstm, name="both"),
            keras.layers.Reshape((2, 2)),
            gru,
            shape=(3, 4),
        )
        rows = {row.name: row.layer for row in tfvn.summary(model).rows}
        assert rows == {
            "each/inner/a": "KTiedDense",
            "both/forward_lstm": "VarianceLSTM",
            "both/backward_lstm": "VarianceLSTM",
            "rnn": "MeanFieldGRUCell",
        }
        row = row_of(model, "rnn")
        assert [weight.name for weight in row.weights] == ["kernel", "recurrent_kernel"]
        assert row.kl == pytest.approx(float(gru.cell.kl_divergence()))

    def test_shared_layers_count_once(self):
        shared = tfvn.MeanFieldDense(4, name="shared")
        inputs = keras.Input((4,))
        model = keras.Model(inputs, shared(shared(inputs)))
        summary = tfvn.summary(model)
        assert [row.name for row in summary.rows] == ["shared"]
        assert summary.total_kl == pytest.approx(float(shared.kl_divergence()))

    def test_parameters_add_up(self):
        prior = tfd.Normal(0.0, tf.Variable(0.3))
        model = model_of(
            tfvn.MeanFieldDense(3, prior=prior),
            tfvn.MeanFieldDense(3, prior=prior),
            keras.layers.BatchNormalization(),
            keras.layers.LSTM(2, dropout=0.5),
            shape=(5, 4),
        )
        summary = tfvn.summary(model)
        assert sum(summary.parameters.values()) == model.count_params()
        assert summary.not_trained == 6
        assert "Normal(loc=0, scale=0.3)" in str(summary)

    def test_subclassed(self):
        class Own(tfvn.Model):
            def __init__(self):
                super().__init__(name="own")
                self.hidden = [tfvn.VarianceDense(3, name="a"), keras.layers.Dense(1)]

            def call(self, x):
                return self.hidden[1](self.hidden[0](x))

        model = Own()
        with pytest.raises(ValueError, match="has been built; call it on data"):
            tfvn.summary(model)
        model(X)
        summary = tfvn.summary(model)
        assert [row.kind for row in summary.rows] == ["random", "plain"]
        assert summary.rows[1].remark == "tfvn.layers.Dense"
        assert str(summary).startswith("own, a Own\n")

    def test_noise(self):
        model = model_of(
            keras.layers.Dropout(0.25, name="a"),
            tfvn.MultiplicativeNoise(noise="rayleigh", name="b"),
            tfvn.NoisyDense(3, structure="dropconnect", name="c"),
            keras.layers.GaussianNoise(0.5, name="d"),
            keras.layers.Dropout(0.0, name="without"),
        )
        summary = tfvn.summary(model)
        assert {row.name: row.remark for row in summary.rows} == {
            "a": "rate=0.25",
            "b": "Rayleigh",
            "c": "Bernoulli, dropconnect",
            "d": "stddev=0.5",
        }
        assert {row.kind for row in summary.rows} == {"noise"}
        assert summary.total_kl == 0

    def test_without_random_weights(self):
        model = model_of(keras.layers.Dense(3), keras.layers.LayerNormalization())
        model.compile("sgd", "mse")
        summary = tfvn.summary(model)
        remarks = [row.remark for row in summary.rows]
        assert remarks == [
            "tfvn.layers.Dense",
            "none: the library has no `LayerNormalization` with random weights",
        ]
        assert "No layer has random weights" in str(summary)

    @pytest.mark.parametrize("wrong", [None, "model.keras", keras.Sequential()])
    def test_what_is_no_built_model_is_refused(self, wrong):
        with pytest.raises(ValueError, match="Argument `model` must be a Keras model"):
            tfvn.summary(wrong)

    def test_mixed_precision_and_loaded_again(self, tmp_path):
        keras.config.set_dtype_policy("mixed_float16")
        model = model_of(tfvn.KTiedDense(3), tfvn.VarianceDense(2))
        summary = tfvn.summary(model)
        model.save(tmp_path / "model.keras")
        again = tfvn.summary(keras.saving.load_model(tmp_path / "model.keras"))
        assert str(again) == str(summary)


class TestText:
    def test_lines_and_html(self):
        layer = tfvn.VarianceDense(3, name="a<b", bias_posterior="mean_field")
        model = keras.Sequential([keras.Input((4,)), layer], name="small")
        summary = tfvn.summary(model)
        lines = str(summary).splitlines()
        assert lines[0] == "small, a Sequential"
        cells = next(line.split() for line in lines if "VarianceDense" in line)
        counts = ["3", "15", "0", f"{summary.total_kl:,.1f}"]
        assert cells == [
            "a<b",
            "VarianceDense",
            "Variance()",
            "log_uniform",
            "local",
            *counts,
        ]
        assert lines[-2].startswith("18 parameters: 3 mean, 15 scale, 0 other")
        assert repr(summary) == str(summary)
        html = summary._repr_html_()
        assert "a&lt;b" in html
        assert "a<b" not in html
        assert html.count("<table>") == 2

    @pytest.mark.parametrize(
        ("part", "text"),
        [
            (tfvn.posteriors.KTied(rank=2), "KTied(rank=2)"),
            (tfvn.posteriors.KTied(), "KTied()"),
            (tfvn.posteriors.Variance("uniform"), "Variance(noise='uniform')"),
            (
                tfvn.posteriors.GaussianDropout("neuron", initial_log_alpha=-1.0),
                "GaussianDropout(alpha='neuron', initial_log_alpha=-1.0)",
            ),
            (tfvn.posteriors.MeanField(), "MeanField()"),
            (
                tfvn.posteriors.MeanField(0.1),
                "MeanField(scale_initializer=Constant(value=0.1))",
            ),
            (tfvn.estimators.get("flipout"), "Flipout()"),
        ],
    )
    def test_parts_are_written_as_one_makes_them(self, part, text):
        assert repr(part) == text

    def test_a_part_that_needs_arguments_shows_all(self):
        class Mine(tfvn.posteriors.KTied):
            def __init__(self, rank):
                super().__init__(rank)

        assert repr(Mine(1)) == "Mine(rank=1)"
