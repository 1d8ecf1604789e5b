"""The trial of an export: examples, answers, and models that cannot be served."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import config

import tfvn
from tfvn.serving.endpoints import Endpoints
from tfvn.serving.export import _PYTHON_OPS, _requests
from tfvn.serving.saved_model import SavedModel, reason, to_array


def small():
    layer = tfvn.MeanFieldDense(3, activation="softmax", prior=None)
    return keras.Sequential([keras.Input((2,)), layer])


@pytest.fixture(scope="module")
def two_inputs():
    """The signatures of a model of the inputs `b` and `a`, in this order."""
    inputs = [keras.Input((1,), name="b"), keras.Input((1,), name="a")]
    layer = tfvn.MeanFieldDense(1, prior=None)
    model = keras.Model(inputs, layer(keras.layers.Concatenate()(inputs)))
    return Endpoints(model, 2, ["regression"])


class TestTrial:
    def test_answers_have_rows(self, tmp_path):
        inputs = keras.Input((2,))
        hidden = tfvn.MeanFieldDense(3, prior=None)(inputs)
        model = keras.Model(inputs, keras.ops.mean(hidden, axis=0, keepdims=True))
        with pytest.raises(ValueError, match="must have one row for each row"):
            tfvn.export_ensemble(model, tmp_path / "m", 2, outputs="regression")
        assert list((tmp_path / "m").iterdir()) == []

    def test_no_server_has_python(self, tmp_path):
        class Doubled(keras.Layer):
            def call(self, inputs):
                doubled = tf.numpy_function(
                    lambda x: x * np.float32(2), [inputs], tf.float32
                )
                return tf.ensure_shape(doubled, inputs.shape)

        model = keras.Sequential([keras.Input((2,)), Doubled(), *small().layers])
        with pytest.raises(ValueError, match="a server has no Python"):
            tfvn.export_ensemble(model, tmp_path / "m", 2)
        assert list((tmp_path / "m").iterdir()) == []

    @pytest.mark.parametrize(
        ("name", "call"),
        [
            ("EagerPyFunc", tf.py_function),
            ("PyFunc", tf.numpy_function),
            ("PyFuncStateless", functools.partial(tf.numpy_function, stateful=False)),
        ],
    )
    def test_python_is_found_in_functions_of_functions(self, tmp_path, name, call):
        @tf.function
        def inner(x):
            return tf.map_fn(lambda y: call(np.negative, [y], tf.float32), x)

        module = tf.Module()
        module.call = tf.function(
            lambda x: tf.cond(x[0] > 0, lambda: inner(x), lambda: x),
            input_signature=[tf.TensorSpec([None], tf.float32)],
        )
        tf.saved_model.save(module, tmp_path)
        assert _PYTHON_OPS.intersection(SavedModel(tmp_path).ops()) == {name}

    def test_examples_are_not_changed(self, tmp_path):
        words = keras.Input((2,), dtype="int32")
        hidden = keras.layers.Flatten()(keras.layers.Embedding(3, 2)(words))
        model = keras.Model(words, tfvn.MeanFieldDense(1, prior=None)(hidden))
        for example, words in (
            ([[0.5, 1.0]], "Received: 0.5 in an array of float64"),
            ([["a", "b"]], "converted to int32"),
            (np.zeros((0, 2)), "must have at least one row"),
        ):
            with pytest.raises(ValueError, match=words):
                tfvn.export_ensemble(
                    model,
                    tmp_path / "m",
                    2,
                    outputs="regression",
                    example=np.asarray(example),
                )

    @pytest.mark.parametrize(
        ("example", "words"),
        [
            (
                {"x": [[1.0]], "y": [[2.0]]},
                r"must have an array for each of the inputs \['b', 'a'\]",
            ),
            ([[[1.0]]], "must have an array for each of"),
            ([1.0, 2.0], "must have at least one row"),
            (
                [np.ones((2, 1)), np.ones((1, 1))],
                "at least one row, and the same number",
            ),
        ],
        ids=["other names", "too few", "scalars", "other rows"],
    )
    def test_examples_that_are_none(self, two_inputs, example, words):
        with pytest.raises(ValueError, match=words):
            _requests(two_inputs, example)

    def test_examples_by_name_and_by_place(self, two_inputs):
        by_name = {"a": np.full((1, 1), 1.0), "b": np.full((1, 1), 2.0)}
        by_place = [by_name["b"], by_name["a"]]
        for example in (by_name, by_place):
            inputs = _requests(two_inputs, example)["mean"]
            assert {name: value.item() for name, value in inputs.items()} == {
                "a": 1.0,
                "b": 2.0,
            }

    def test_examples_of_one_input_are_what_makes_an_array(self):
        endpoints = Endpoints(small(), 2, ["probabilities"])
        rows = [[1.0, 2.0], [3.0, 4.0]]
        for example in (rows, np.array(rows), [np.array(rows)], tf.constant(rows)):
            inputs = _requests(endpoints, example)["mean"]
            np.testing.assert_array_equal(inputs["inputs"], rows)
        with pytest.raises(ValueError, match="must have at least one row"):
            _requests(endpoints, 1.0)
        with pytest.raises(ValueError, match="must be an array"):
            _requests(endpoints, [[1.0, 2.0], [3.0]])

    def test_strategies_are_left_first(self, tmp_path):
        with (
            tf.distribute.MirroredStrategy(["CPU:0"]).scope(),
            pytest.raises(RuntimeError, match="outside of `strategy"),
        ):
            tfvn.export_ensemble(small(), tmp_path / "m", 2)

    def test_determinism_forbids_fresh_noise(self, tmp_path):
        tf.config.experimental.enable_op_determinism()
        try:
            with pytest.raises(
                RuntimeError, match="export from a process that has not"
            ):
                tfvn.export_ensemble(small(), tmp_path / "m", 2)
        finally:
            config.disable_op_determinism()
        assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        ([1.0, -2.0], tf.int32, [1, -2]),
        ([True, False], tf.int64, [1, 0]),
        ([1, 0], tf.bool, [True, False]),
        ([2**31 - 1], tf.int32, [2**31 - 1]),
        ([2**31], tf.int32, None),
        ([-1], tf.uint8, None),
        ([0.5], tf.int32, None),
        ([np.nan], tf.int32, None),
        ([np.inf], tf.int64, None),
        ([2], tf.bool, None),
        ([1 + 1j], tf.float32, None),
        (["1"], tf.float32, None),
        ([10**23], tf.int32, None),
        ([1], tf.string, None),
    ],
)
def test_numbers_keep_their_values(value, dtype, expected):
    spec = tf.TensorSpec([None], dtype)
    if expected is None:
        with pytest.raises(ValueError, match="Input `x` must"):
            to_array(np.array(value), spec, "Input `x`")
    else:
        array = to_array(np.array(value), spec, "Input `x`")
        assert array.dtype == dtype.as_numpy_dtype
        np.testing.assert_array_equal(array, expected)


def test_reasons_are_what_is_wrong():
    several = "2 root error(s) found.\n  (0) INVALID_ARGUMENT:  No rows\n\t [[{{x}}]]"
    for text, expected in {
        "Graph execution error:\n\nDetected at node a defined at:\n  File\nNo rows\n\t [[": (
            "No rows"
        ),
        several: "No rows",
        "{{function_node __wrapped__A}} No rows [Op:A]": "No rows",
    }.items():
        assert reason(tf.errors.InvalidArgumentError(None, None, text)) == expected
