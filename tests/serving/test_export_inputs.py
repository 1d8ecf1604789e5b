"""Exports of texts and other types, and what they refuse: names, labels, examples."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from clients import GrpcClient, RefusedError, RestClient
from loader import LoadedModel
from protocol_fixture import ProtocolFixture

import tfvn
from tfvn import cli
from tfvn.serving.endpoints import Endpoints
from tfvn.serving.labels import checked_labels
from tfvn.serving.saved_model import SavedModel

TEXTS = np.array([["the cat"], ["a dog ate the cat"], [""], ["größe" * 20]])
SEEDS = np.arange(8, dtype="int32").reshape(4, 2)


def text_model():
    words = keras.layers.TextVectorization(max_tokens=20, output_sequence_length=5)
    words.adapt(["the cat sat", "a dog ate the cat"])
    texts = keras.Input((1,), dtype="string")
    hidden = keras.layers.Embedding(20, 4, embeddings_initializer="normal")(
        words(texts)
    )
    hidden = keras.layers.GlobalAveragePooling1D()(50 * hidden)
    return keras.Model(texts, tfvn.VarianceDense(3, prior=None)(hidden))


def small(outputs="softmax", units=3):
    layer = tfvn.MeanFieldDense(units, activation=outputs, prior=None)
    return keras.Sequential([keras.Input((2,)), layer])


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    return text_model()


@pytest.fixture(scope="module")
def texts(model, tmp_path_factory):
    """The export of a model of texts."""
    base = tmp_path_factory.mktemp("models") / "texts"
    return tfvn.export_ensemble(model, base, 5, outputs="regression")


class TestTexts:
    def test_every_signature_in_tensorflow_itself(self, texts):
        loaded = tf.saved_model.load(str(texts))
        x = tf.constant(TEXTS)
        answer = loaded.signatures["serving_default"](inputs=x)
        assert answer["mean"].shape == (4, 3)
        samples = loaded.signatures["samples"](inputs=x)["samples"].numpy()
        assert samples.shape == (4, 5, 3)
        assert len(np.unique(samples)) == samples.size
        first, again = (
            loaded.signatures["seeded"](inputs=x, seed=tf.constant(SEEDS))["mean"]
            for _ in range(2)
        )
        np.testing.assert_array_equal(first, again)

    def test_draws_spread_as_the_weights_do(self, texts, model):
        words, embedding, layer = (
            model.get_layer(index=1)(tf.constant(TEXTS[:1])).numpy(),
            model.layers[2].get_weights()[0],
            model.layers[-1],
        )
        hidden = 50 * embedding[words].mean(1)
        expected = np.sqrt(hidden**2 @ layer.posterior_distribution().variance())
        rows = {"inputs": np.repeat(TEXTS[:1], 400, axis=0)}
        draws = SavedModel(texts)(rows, "samples")["samples"].reshape(2000, 3)
        found = np.sqrt((draws**2).mean(0))
        np.testing.assert_allclose(found, expected[0], rtol=5 / np.sqrt(2 * 2000))

    def test_every_door_gives_the_same(self, texts):
        inputs = {"inputs": TEXTS, "seed": SEEDS}
        expected = SavedModel(texts)(inputs, "seeded")
        cpp = LoadedModel(texts)(inputs, "seeded")
        with (
            ProtocolFixture(texts.parent) as alone,
            ProtocolFixture(texts.parent, batching=True) as merging,
        ):
            assert alone.warmed_up == {1: 3}
            as_bytes = np.array([[t.encode()] for t in TEXTS.ravel()], object)
            answers = [cpp]
            for fixture in (alone, merging):
                grpc = GrpcClient(fixture.grpc_address, fixture.name)
                asked = {"inputs": as_bytes, "seed": SEEDS}
                answers.append(grpc.predict(asked, "seeded"))
                grpc.channel.close()
                for is_row in (True, False):
                    rest = RestClient(fixture.rest_address, fixture.name, is_row)
                    answers.append(rest.predict(inputs, "seeded"))
            row = {"inputs": [{"b64": "dGhlIGNhdA=="}], "seed": [0, 1]}  # the cat
            by_base64 = rest.post({"instances": [row]}, "seeded")["predictions"][0]
            with pytest.raises(RefusedError):
                rest.predict({"inputs": np.ones((4, 1)), "seed": SEEDS}, "seeded")
        for answer in answers:
            assert set(answer) == set(expected)
            for name, value in expected.items():
                np.testing.assert_allclose(answer[name], value, atol=1e-5)
        np.testing.assert_allclose(
            by_base64["mean"], expected["mean"][0], rtol=1e-4, atol=1e-5
        )

    def test_by_the_command(self, texts, tmp_path, capsys):
        assert cli.main(["inspect", str(texts)]) == 0
        assert "inputs: string (?, 1)" in capsys.readouterr().out
        given, answer = tmp_path / "rows.npy", tmp_path / "answer.npz"
        ask = ["predict", str(texts), "--input", str(given), "--seed", "3"]
        found = []
        for rows in (TEXTS, np.char.encode(TEXTS, "utf-8")):
            np.save(given, rows)
            assert cli.main([*ask, "--output", str(answer)]) == 0
            found.append(np.load(answer)["mean"])
        np.testing.assert_array_equal(*found)
        seeds = np.stack([np.full(4, 3), np.arange(4)], axis=1)
        expected = LoadedModel(texts)({"inputs": TEXTS, "seed": seeds}, "seeded")
        np.testing.assert_allclose(found[0], expected["mean"], atol=1e-5)
        np.save(given, np.ones((2, 1)))
        assert cli.main(ask) == 2
        error = capsys.readouterr().err
        assert (
            f"`inputs` of --input {given} must be strings. Received: an array" in error
        )


class TestTypes:
    def test_all_of_them_and_their_names_at_once(self, tmp_path):
        inputs = {
            name: keras.Input(shape, dtype=dtype, name=name)
            for name, shape, dtype in [
                ("Age-1", (1,), "float64"),
                ("1st", (2,), "int32"),
                ("kind", (1,), "bool"),
                ("image.raw", (None, 2), "uint8"),
                ("args", (), "string"),
            ]
        }
        known = keras.layers.StringLookup(vocabulary=["x", "y"])(inputs["args"])
        parts = [
            inputs["Age-1"],
            inputs["1st"],
            inputs["kind"],
            keras.ops.sum(keras.ops.cast(inputs["image.raw"], "float32"), 1),
            known[:, None],
        ]
        cast = [keras.ops.cast(part, "float32") for part in parts]
        hidden = keras.layers.Concatenate()(cast)
        layer = tfvn.MeanFieldDense(1, prior=None)
        # Names with spaces, and in another order than the alphabet's.
        outputs = {"b c": layer(hidden), "a": keras.layers.Dropout(0.5)(hidden)}
        model = keras.Model(inputs, outputs)
        path = tfvn.export_ensemble(model, tmp_path / "m", 2, outputs="regression")
        rows = {
            "Age-1": np.array([[1.5], [2.5]]),
            "1st": np.array([[1, 2], [3, 4]]),
            "kind": np.array([[True], [False]]),
            "image.raw": np.full((2, 3, 2), 200, "uint8"),
            "args": np.array(["y", "elsewhere"]),
        }
        expected = np.array([[1.5, 1, 2, 1, 600, 600, 2], [2.5, 3, 4, 0, 600, 600, 0]])
        for served in (SavedModel(path), LoadedModel(path)):
            assert set(served.signatures["mean"].inputs) == set(rows)
            answer = served(rows, "mean")
            assert set(answer) == {"a_mean", "b c_mean"}
            np.testing.assert_allclose(answer["a_mean"], expected)
            weights = layer.posterior_distribution().mean().numpy()
            np.testing.assert_allclose(
                answer["b c_mean"], expected @ weights, rtol=1e-4
            )

    def test_half_precision_and_compiled_models(self, tmp_path):
        keras.config.set_dtype_policy("mixed_float16")
        model = small()
        model.compile(loss="sparse_categorical_crossentropy", jit_compile=True)
        x = np.array([[0.5, -1.0], [2.0, 0.0]], "float32")
        # Numbers of NumPy's are numbers.
        path = tfvn.export_ensemble(
            model, tmp_path / "m", np.int64(2), version=np.int32(3)
        )
        assert path.name == "3"
        answer = SavedModel(path)({"inputs": x}, "mean")["mean"]
        assert answer.dtype == "float32"
        np.testing.assert_allclose(answer, tfvn.mean_predict(model, x), atol=2e-3)

    @pytest.mark.parametrize(
        "spec",
        [
            tf.RaggedTensorSpec([None, None], tf.float32),
            tf.SparseTensorSpec([None, 2], tf.float32),
            tf.TensorSpec(None, tf.float32),
            tf.TensorSpec([], tf.float32),
        ],
    )
    def test_tensors_that_no_server_takes(self, spec):
        with pytest.raises(ValueError, match="The inputs of an exported model must"):
            Endpoints(small(), 2, ["probabilities"], spec)

    @pytest.mark.parametrize("form", ["sparse", "ragged"])
    def test_inputs_that_no_server_takes(self, form):
        inputs = keras.Input((2,), **{form: True})
        dense = keras.Input((2,))
        layer = tfvn.MeanFieldDense(1, prior=None)
        model = keras.Model([inputs, dense], layer(dense))
        with pytest.raises(ValueError, match="must be dense tensors"):
            Endpoints(model, 2, ["regression"])


class TestNames:
    @pytest.mark.parametrize(
        "names",
        [
            ("my input", "b"),
            ("My_Input", "my_input"),
            ("a.b", "a_b"),
            ("a/b", "c"),
            ("größe", "b"),
            ("_x", "y"),
            ("x", "Seed"),
            ("self", "x"),
            ("class", "x"),
            ("", "x"),
        ],
    )
    def test_that_tensorflow_would_change(self, names):
        specs = {name: tf.TensorSpec([None, 2], tf.float32) for name in names}
        with pytest.raises(ValueError, match="must consist of letters") as raised:
            Endpoints(small(), 2, ["probabilities"], specs)
        assert str(list(specs))[1:-1].split(", ")[0] in str(raised.value)

    def test_the_name_of_an_only_input_is_not_looked_at(self):
        model = keras.Sequential([keras.Input((2,), name="my input"), *small().layers])
        assert list(Endpoints(model, 2, ["probabilities"]).specs) == ["inputs"]

    def test_outputs_that_would_hide_each_other(self, tmp_path):
        inputs = keras.Input((2,))
        hidden = tfvn.MeanFieldDense(1, prior=None)(inputs)
        outputs = {"a": {"b": hidden}, "a_b": 2 * hidden}
        model = keras.Model(inputs, outputs)
        with pytest.raises(ValueError, match=r"'a_b_mean'.* more than once"):
            tfvn.export_ensemble(model, tmp_path / "m", 2, outputs="regression")


class TestLabels:
    @pytest.mark.parametrize(
        ("kind", "shape", "count"),
        [
            ("logits", (None, 5, 3), 3),
            ("logits", (None, 5, 1), 2),
            ("probabilities", (None, 5, 4, 4, 3), 3),
            ("binary_probabilities", (None, 5, 1), 2),
            ("binary_logits", (None, 5), 2),
            ("binary_logits", (None, 5, 4), 4),
        ],
    )
    def test_are_as_many_as_classes(self, kind, shape, count):
        draws = {"samples": tf.TensorSpec(shape, tf.float32)}
        names = tuple("abcdef"[:count])
        assert checked_labels(names, [kind], draws) == list(names)
        assert checked_labels(np.array(names), [kind], draws) == list(names)
        for wrong in (names[1:], (*names, "more")):
            with pytest.raises(ValueError, match=f"`labels` must be {count} names"):
                checked_labels(wrong, [kind], draws)

    def test_of_several_outputs(self):
        draws = {
            "risk_samples": tf.TensorSpec((None, 5, 3), tf.float32),
            "dose_samples": tf.TensorSpec((None, 5, 1), tf.float32),
        }
        kinds = ["probabilities", "regression"]
        labels = {"risk": ["low", "middle", "high"]}
        assert checked_labels(labels, kinds, draws) == labels
        for wrong, words in (
            (["low", "middle", "high"], r"must be a dictionary .*'risk', 'dose'"),
            ({"age": ["low"]}, "must be a dictionary"),
            ({"risk": ["low"]}, r"`labels\['risk'\]` must be 3 names"),
            ({"dose": ["low"]}, r"`labels\['dose'\]` must be `None`"),
            ({"risk": "low"}, "must be a list of strings"),
        ):
            with pytest.raises(ValueError, match=words):
                checked_labels(wrong, kinds, draws)

    @pytest.mark.parametrize(
        "labels", ["abc", ["a", "b\nc", "d"], [1, 2, 3], {"a": 1}, b"abc", 3]
    )
    def test_are_a_list_of_lines(self, tmp_path, labels):
        draws = {"samples": tf.TensorSpec((None, 5, 3), tf.float32)}
        with pytest.raises(ValueError, match="must be a list of strings"):
            checked_labels(labels, ["logits"], draws)

    def test_of_an_export(self, tmp_path):
        with pytest.raises(ValueError, match=r"must be 3 names.* of 2 names"):
            tfvn.export_ensemble(small(), tmp_path / "m", 2, labels=["a", "b"])
        assert not (tmp_path / "m").exists()
