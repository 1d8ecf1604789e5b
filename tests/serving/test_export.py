"""What can be exported, what is refused, and what an export says about itself."""

import json
import logging

import keras
import numpy as np
import pytest
import tensorflow as tf
from loader import LoadedModel

import tfvn
from tfvn.serving.endpoints import Endpoints


def regression(**kwargs):
    layer = tfvn.VarianceDense(2, prior=None, **kwargs)
    return keras.Sequential([keras.Input((3,)), layer], name="regression")


@pytest.mark.parametrize(
    ("layers", "has_mean"),
    [
        ([tfvn.MeanFieldDense], True),
        ([tfvn.VarianceDense], False),
        # A prediction with the means of one layer and zeros of the other is a guess.
        ([tfvn.MeanFieldDense, tfvn.VarianceDense], False),
        ([tfvn.VarianceDense, tfvn.MeanFieldDense], False),
    ],
)
def test_mean_is_served_only_if_all_weights_have_one(layers, has_mean):
    model = keras.Sequential([keras.Input((3,)), *(layer(3) for layer in layers)])
    assert Endpoints(model, 2, ["regression"]).has_mean == has_mean


def test_tensorflow_has_nothing_to_warn_of(tmp_path):
    records = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = records.append
    logger = tf.get_logger()
    logger.addHandler(handler)
    try:
        tfvn.export_ensemble(regression(), tmp_path / "m", 2, outputs="regression")
    finally:
        logger.removeHandler(handler)
    assert not [record.getMessage() for record in records]


class TestModels:
    def test_several_inputs_and_outputs(self, tmp_path):
        images, ages = keras.Input((2, 2), name="image"), keras.Input((1,), name="age")
        hidden = keras.layers.Concatenate()([keras.layers.Flatten()(images), ages])
        hidden = tfvn.MeanFieldDense(6, activation="tanh", prior=None)(hidden)
        outputs = {
            "risk": keras.layers.Dense(2, activation="softmax")(hidden),
            "dose": keras.layers.Dense(1)(hidden),
        }
        model = keras.Model({"image": images, "age": ages}, outputs)
        kinds = {"dose": "regression"}  # what a risk is, its activation says
        path = tfvn.export_ensemble(model, tmp_path / "m", 4, outputs=kinds)
        served = LoadedModel(path)
        inputs = {"image": np.ones((3, 2, 2)), "age": np.ones((3, 1))}
        answer = served(inputs)
        assert {name: value.shape for name, value in answer.items()} == {
            "dose_mean": (3, 1),
            "dose_std": (3, 1),
            "risk_mean": (3, 2),
            "risk_std": (3, 2),
            "risk_entropy": (3,),
            "risk_mutual_information": (3,),
        }
        expected = tfvn.mean_predict(model, inputs)
        answer = served(inputs, "mean")
        for name, value in expected.items():
            np.testing.assert_allclose(answer[f"{name}_mean"], value, atol=1e-5)
        with pytest.raises(tf.errors.InvalidArgumentError, match="same number of rows"):
            served({**inputs, "age": np.ones((2, 1))})

    def test_lists_of_inputs_have_their_names(self, tmp_path):
        first, second = (
            keras.Input((2,), name="first"),
            keras.Input((2,), name="second"),
        )
        outputs = keras.layers.Subtract()([first, second])
        outputs = tfvn.MeanFieldDense(1, prior=None)(outputs)
        model = keras.Model([first, second], outputs)
        path = tfvn.export_ensemble(model, tmp_path / "m", 2, outputs="regression")
        inputs = {"first": np.ones((1, 2)), "second": np.zeros((1, 2))}
        answer = LoadedModel(path)(inputs, "mean")["mean"]
        expected = tfvn.mean_predict(model, list(inputs.values()))
        np.testing.assert_allclose(answer, expected, atol=1e-6)

    def test_subclassed_models_need_a_signature(self, tmp_path):
        class Subclassed(keras.Model):
            def __init__(self):
                super().__init__()
                self.layer = tfvn.MeanFieldDense(2, prior=None)

            def call(self, inputs):
                return self.layer(inputs)

        model = Subclassed()
        model(np.ones((1, 3)))
        with pytest.raises(ValueError, match="Argument `input_signature` must"):
            tfvn.export_ensemble(model, tmp_path / "m", outputs="regression")
        spec = tf.TensorSpec([None, 3], tf.float32)
        path = tfvn.export_ensemble(
            model, tmp_path / "m", 3, outputs="regression", input_signature=spec
        )
        samples = LoadedModel(path)({"inputs": np.ones((2, 3))}, "samples")["samples"]
        assert samples.shape == (2, 3, 2)

    def test_subclassed_models_of_several_outputs(self, tmp_path):
        class Subclassed(keras.Model):
            def __init__(self):
                super().__init__()
                self.layer = tfvn.MeanFieldDense(2, prior=None)

            def call(self, inputs):
                hidden = self.layer(inputs)
                return {"dose": hidden, "risk": keras.ops.softmax(hidden)}

        model = Subclassed()
        x = np.ones((2, 3), "float32")
        model(x)
        kinds = {"risk": "probabilities", "dose": "regression"}
        path = tfvn.export_ensemble(
            model,
            tmp_path / "m",
            3,
            outputs=kinds,
            input_signature=tf.TensorSpec([None, 3], tf.float32),
        )
        served = LoadedModel(path)
        answer = served({"inputs": x})
        assert answer["risk_entropy"].shape == (2,)
        assert "dose_entropy" not in answer
        assert {"dose_mean", "risk_mean", "risk_entropy"} == set(
            served({"inputs": x}, "mean")
        )
        drawn = tfvn.ensemble_predict(model, x, num_samples=3, outputs=kinds)
        assert drawn["dose"].entropy is None
        assert drawn["risk"].entropy.shape == (2,)
        with pytest.raises(ValueError, match="must be a dictionary"):
            tfvn.ensemble_predict(model, x, outputs=["regression"] * 3)

    def test_regression_has_no_entropy(self, tmp_path):
        path = tfvn.export_ensemble(
            regression(), tmp_path / "m", 3, outputs="regression"
        )
        signatures = LoadedModel(path).signatures
        assert set(signatures["serving_default"].outputs) == {"mean", "std"}
        # Its means are zero.
        assert "mean" not in signatures
        assert "no signature `mean`" in (path / "assets.extra/README.md").read_text()

    def test_integers_and_unknown_sizes(self, tmp_path):
        words = keras.Input((None,), dtype="int32")
        hidden = keras.layers.Embedding(10, 4)(words)
        hidden = keras.layers.GlobalAveragePooling1D()(hidden)
        outputs = tfvn.MeanFieldDense(2, activation="softmax", prior=None)(hidden)
        path = tfvn.export_ensemble(keras.Model(words, outputs), tmp_path / "m", 3)
        served = LoadedModel(path)
        for length in (1, 7):
            answer = served({"inputs": np.ones((2, length), "int32")})
            assert answer["mean"].shape == (2, 2)

    def test_one_draw(self, tmp_path):
        path = tfvn.export_ensemble(
            regression(), tmp_path / "m", 1, outputs="regression"
        )
        served = LoadedModel(path)
        x = np.random.default_rng(0).normal(size=(4, 3))
        seed = np.arange(8, dtype="int32").reshape(4, 2)
        together = served({"inputs": x, "seed": seed}, "seeded")
        alone = served({"inputs": x[2:3], "seed": seed[2:3]}, "seeded")
        np.testing.assert_allclose(together["mean"][2:3], alone["mean"], atol=1e-6)
        assert not np.any(together["std"])

    def test_the_model_is_left_as_it_was(self, tmp_path):
        layer = tfvn.MeanFieldDense(2, estimator="weights", kl_weight=1.0)
        model = keras.Sequential([keras.Input((3,)), layer])
        weights, estimator = model.get_weights(), layer.estimator
        tfvn.export_ensemble(model, tmp_path / "m", 2, outputs="regression")
        for before, after in zip(weights, model.get_weights(), strict=True):
            np.testing.assert_array_equal(before, after)
        assert layer.estimator is estimator
        assert model.losses == []


class TestRounding:
    def test_a_row_has_one_answer_in_all_batches(self, tmp_path):
        model = keras.Sequential(
            [
                keras.Input((784,)),
                keras.layers.Dense(400, activation="relu"),
                tfvn.VarianceDense(100, activation="relu", prior=None),
                keras.layers.Dense(10),
            ]
        )
        path = tfvn.export_ensemble(model, tmp_path / "m", 4, outputs="regression")
        served = LoadedModel(path)
        generator = np.random.default_rng(0)
        x = 30 * generator.normal(size=(200, 784)).astype("float32")
        seed = generator.integers(2**31, size=(200, 2)).astype("int32")
        alone = served({"inputs": x[:1], "seed": seed[:1]}, "seeded")["mean"]
        for size in (2, 3, 17, 64, 200):
            inputs = {"inputs": x[:size], "seed": seed[:size]}
            answer = served(inputs, "seeded")["mean"][:1]
            scale = np.abs(alone).max()
            np.testing.assert_allclose(answer / scale, alone / scale, atol=1e-6)


class TestRefusals:
    def test_models_without_noise(self, tmp_path):
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        with pytest.raises(ValueError, match="must have a layer that draws noise"):
            tfvn.export_ensemble(model, tmp_path / "m", outputs="regression")

    @pytest.mark.parametrize("count", [0, -1, 2.5, True, "20"])
    def test_num_samples(self, tmp_path, count):
        with pytest.raises(ValueError, match="Argument `num_samples` must"):
            tfvn.export_ensemble(regression(), tmp_path, count, outputs="regression")

    def test_unbuilt_models(self, tmp_path):
        model = keras.Sequential([tfvn.VarianceDense(2)])
        for value in (model, "model"):
            with pytest.raises(ValueError, match="Argument `model` must"):
                tfvn.export_ensemble(value, tmp_path / "m", outputs="regression")

    def test_inputs_called_seed(self, tmp_path):
        first, second = keras.Input((2,), name="seed"), keras.Input((2,), name="x")
        outputs = keras.layers.Add()([first, second])
        model = keras.Model([first, second], tfvn.VarianceDense(1, prior=None)(outputs))
        with pytest.raises(ValueError, match="none of 'seed'"):
            tfvn.export_ensemble(model, tmp_path / "m", outputs="regression")

    def test_rows_that_cannot_be_answered(self, tmp_path):
        inputs = keras.Input((2,))
        hidden = keras.layers.Rescaling(1.0)(inputs)
        outputs = tfvn.MeanFieldDense(1, prior=None)(1.0 / hidden)
        model = keras.Model(inputs, outputs)
        base = tmp_path / "m"
        # Zeros, which it is tried with, are not for this model.
        with pytest.raises(ValueError, match="pass rows that the model can predict"):
            tfvn.export_ensemble(model, base, 2, outputs="regression")
        assert list(base.iterdir()) == []
        example = np.ones((2, 2))
        path = tfvn.export_ensemble(
            model, base, 2, outputs="regression", example=example
        )
        assert path.name == "1"


class TestAssets:
    def test_facts(self, export):
        facts = json.loads((export / "assets.extra" / "ensemble.json").read_text())
        assert facts["model"] == "irises"
        assert facts["num_samples"] == 6
        assert facts["outputs"] == ["probabilities"]
        assert facts["labels"] == ["setosa", "versicolor", "virginica"]
        assert facts["versions"]["tensorflow"] == tf.__version__
        assert facts["versions"]["keras"] == keras.__version__
        assert facts["versions"]["tfvn"] == tfvn.__version__
        assert [layer["posterior"] for layer in facts["layers"]] == ["mean_field"] * 2
        assert facts["signatures"] == ["serving_default", "samples", "seeded", "mean"]

    def test_labels(self, export):
        text = (export / "assets.extra" / "labels.txt").read_text()
        assert text.splitlines() == ["setosa", "versicolor", "virginica"]

    def test_card(self, export):
        text = (export / "assets.extra" / "README.md").read_text()
        assert text.startswith("# irises\n")
        assert "6 draws" in text
        assert "| `seeded` |" in text
