"""Exports behind the protocol fixture and TensorFlow's C++ loader: every rule."""

import concurrent.futures
import pathlib
import subprocess
import sys

import loader
import numpy as np
import pytest
import tensorflow as tf
from clients import RefusedError
from conftest import NUM_SAMPLES
from loader import LoadedModel
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2

import tfvn

SIGNATURES = {"mean", "samples", "seeded", "serving_default"}
SUMMARY = {"mean", "std", "entropy", "mutual_information"}


def seeds_for(rows):
    return np.stack([np.arange(len(rows)), np.full(len(rows), 7)], 1).astype("int32")


class TestAnswers:
    def test_summary(self, client, rows):
        answer = client.predict({"inputs": rows})
        assert set(answer) == SUMMARY
        mean, std = answer["mean"], answer["std"]
        assert mean.shape == std.shape == (5, 3)
        np.testing.assert_allclose(mean.sum(-1), 1.0, rtol=1e-5)
        entropy = -(mean * np.log(mean)).sum(-1)
        np.testing.assert_allclose(answer["entropy"], entropy, rtol=1e-4)
        assert np.all(std > 0)
        assert np.all(answer["mutual_information"] > 0)
        assert np.all(answer["mutual_information"] < entropy)

    def test_samples_are_on_axis_1(self, client, rows):
        (samples,) = client.predict({"inputs": rows}, "samples").values()
        assert samples.shape == (5, NUM_SAMPLES, 3)
        np.testing.assert_allclose(samples.sum(-1), 1.0, rtol=1e-5)

    def test_mean_weights(self, client, rows, classifier):
        answer = client.predict({"inputs": rows}, "mean")
        assert set(answer) == {"mean", "entropy"}
        expected = tfvn.mean_predict(classifier, rows)
        np.testing.assert_allclose(answer["mean"], expected, rtol=1e-5)

    def test_seeded_rows_survive_merging(self, client, clients, rows):
        inputs = {"inputs": rows, "seed": seeds_for(rows)}
        alone = clients["cpp"].predict(inputs, "seeded")
        assert set(alone) == SUMMARY
        answer = client.predict(inputs, "seeded")
        for name, value in alone.items():
            np.testing.assert_allclose(answer[name], value, atol=1e-5)
        other = {**inputs, "seed": inputs["seed"] + 1}
        assert np.all(client.predict(other, "seeded")["mean"] != alone["mean"])

    def test_noise_is_fresh_for_every_row_and_call(self, client, rows):
        same = {"inputs": np.repeat(rows[:1], 4, axis=0)}
        draws = [client.predict(same, "samples") for _ in range(2)]
        draws = np.concatenate([next(iter(answer.values())) for answer in draws])
        flat = draws.reshape(-1, 3)
        assert len(np.unique(flat, axis=0)) == len(flat) == 2 * 4 * NUM_SAMPLES

    def test_metadata_and_status(self, clients):
        signatures = clients["grpc"].signatures()
        assert set(signatures) - {"__saved_model_init_op"} == SIGNATURES
        assert set(signatures["seeded"].inputs) == {"inputs", "seed"}
        assert clients["grpc"].versions() == clients["grpc"].versions(1) == [1]
        shown = clients["row"].get("/metadata")["metadata"]["signature_def"]
        shape = shown["signature_def"]["seeded"]["inputs"]["seed"]["tensor_shape"]
        assert [axis["size"] for axis in shape["dim"]] == ["-1", "2"]
        (status,) = clients["row"].get("/versions/1")["model_version_status"]
        assert (status["version"], status["state"]) == ("1", "AVAILABLE")

    def test_rest_without_names(self, clients, rows):
        answer = clients["row"].post({"instances": rows.tolist()})
        assert len(answer["predictions"]) == 5
        assert set(answer["predictions"][0]) == SUMMARY
        answer = clients["columnar"].post({"inputs": rows.tolist()})
        assert np.shape(answer["outputs"]["mean"]) == (5, 3)

    def test_output_filter(self, clients, rows):
        answer = clients["grpc"].predict({"inputs": rows}, output_filter=["entropy"])
        assert set(answer) == {"entropy"}


class TestFreshness:
    @pytest.mark.parametrize("door", ["cpp", "merged_grpc"])
    def test_2400_calls_of_8_threads_are_distinct(self, clients, rows, door):
        inputs = {"inputs": rows[:1]}

        def call(_):
            return clients[door].predict(inputs, "samples")["samples"]

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            draws = np.stack(list(pool.map(call, range(8 * 300))))
        draws = draws.reshape(2400, -1)
        assert len(np.unique(draws, axis=0)) == 2400
        # Not one of the draws inside of the calls is shared either.
        singles = draws.reshape(-1, 3)
        assert len(np.unique(singles, axis=0)) == len(singles)

    def test_loads_differ(self, export, rows):
        inputs = {"inputs": rows}
        draws = [LoadedModel(export)(inputs, "samples")["samples"] for _ in range(3)]
        assert not np.any(draws[0] == draws[1])
        assert not np.any(draws[1] == draws[2])

    def test_no_seed_is_in_the_export(self, export):
        content = (export / "saved_model.pb").read_bytes()
        saved = saved_model_pb2.SavedModel.FromString(content)
        library = saved.meta_graphs[0].graph_def.library.function
        nodes = [node for function in library for node in function.node_def]
        stateful = [node for node in nodes if node.op.startswith("Random")]
        # One for each of `serving_default` and `samples`.
        assert len(stateful) == 2
        assert {n.attr[key].i for n in stateful for key in ("seed", "seed2")} == {0}


class TestRefusals:
    @pytest.mark.parametrize(
        "inputs",
        {
            "wide": np.zeros((2, 5), "float32"),
            "narrow": np.zeros((2, 3), "float32"),
            "vector": np.zeros(4, "float32"),
            "deep": np.zeros((2, 4, 1), "float32"),
            "nan": np.full((2, 4), np.nan, "float32"),
            "infinite": np.full((2, 4), np.inf, "float32"),
        }.items(),
        ids=lambda item: item[0],
    )
    @pytest.mark.parametrize("signature", sorted(SIGNATURES))
    def test_bad_values(self, clients, inputs, signature):
        _, value = inputs
        inputs = {"inputs": value}
        if signature == "seeded":
            inputs["seed"] = np.zeros((len(value), 2), "int32")
        for door in ("cpp", "grpc", "row"):
            with pytest.raises(RefusedError) as refused:
                clients[door].predict(inputs, signature)
            assert refused.value.code in (
                tf.errors.INVALID_ARGUMENT,
                "INVALID_ARGUMENT",
                400,
            )

    @pytest.mark.one_in(4)
    @pytest.mark.parametrize("signature", ["serving_default", "samples", "mean"])
    @pytest.mark.parametrize("value", [1e30, -1e30, 3e38])
    def test_large_values_get_a_finite_answer_or_none(self, client, signature, value):
        inputs = {"inputs": np.full((2, 4), value, "float32")}
        try:
            answer = client.predict(inputs, signature)
        except RefusedError as refused:
            message = refused.message
            answer = {}
        else:
            message = "Answers must be finite"
        assert "must be finite" in message
        assert all(np.all(np.isfinite(v)) for v in answer.values())

    @pytest.mark.parametrize("dtype", ["float64", "int32", "float16"])
    def test_other_types(self, clients, dtype):
        for door in ("cpp", "grpc", "merged_grpc"):
            with pytest.raises(RefusedError):
                clients[door].predict({"inputs": np.zeros((2, 4), dtype)})

    @pytest.mark.parametrize(
        "seed",
        [
            np.zeros((2, 3), "int32"),
            np.zeros((2, 1), "int32"),
            np.zeros((1, 2), "int32"),
            np.zeros((3, 2), "int32"),
            np.zeros(2, "int32"),
            np.zeros((2, 2), "int64"),
        ],
        ids=lambda seed: f"{seed.dtype}{list(seed.shape)}",
    )
    def test_bad_seeds(self, clients, seed):
        inputs = {"inputs": np.zeros((2, 4), "float32"), "seed": seed}
        for door in ("cpp", "grpc", "merged_grpc"):
            with pytest.raises(RefusedError):
                clients[door].predict(inputs, "seeded")

    def test_empty_batch(self, clients):
        none = {"inputs": np.zeros((0, 4), "float32")}
        for door in ("cpp", "grpc"):
            answer = clients[door].predict(none)
            assert answer["mean"].shape == (0, 3)
            assert answer["entropy"].shape == (0,)
            (samples,) = clients[door].predict(none, "samples").values()
            assert samples.shape == (0, NUM_SAMPLES, 3)
        # A list of no rows has no shape in JSON.
        for door in ("row", "columnar"):
            with pytest.raises(RefusedError) as refused:
                clients[door].predict(none)
            assert refused.value.code == 400

    def test_names(self, clients, rows):
        for door, code in {"grpc": "FAILED_PRECONDITION", "row": 400}.items():
            with pytest.raises(RefusedError) as refused:
                clients[door].predict({"inputs": rows}, "best")
            assert refused.value.code == code
        for door, code in {"grpc": "INVALID_ARGUMENT", "row": 400}.items():
            with pytest.raises(RefusedError) as refused:
                clients[door].predict({"images": rows})
            assert refused.value.code == code
        for door, code in {"grpc": "NOT_FOUND", "row": 404}.items():
            with pytest.raises(RefusedError) as refused:
                clients[door].predict({"inputs": rows}, version=9)
            assert refused.value.code == code

    def test_a_request_that_fails_harms_no_other(self, clients, rows):
        with pytest.raises(RefusedError):
            clients["grpc"].predict({"inputs": rows * np.nan})
        assert clients["grpc"].predict({"inputs": rows})["mean"].shape == (5, 3)


class TestWarmUp:
    def test_is_replayed(self, fixtures):
        assert fixtures.alone.warmed_up == {1: len(SIGNATURES)}

    def test_is_what_the_protocol_says(self, export):
        path = export / "assets.extra" / "tf_serving_warmup_requests"
        records = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
        found = [prediction_log_pb2.PredictionLog.FromString(r) for r in records]
        expected = []
        for signature in ("serving_default", "samples", "seeded", "mean"):
            log = prediction_log_pb2.PredictionLog()
            request = log.predict_log.request
            request.model_spec.name = "irises"
            request.model_spec.signature_name = signature
            inputs = {"inputs": np.zeros((1, 4), "float32")}
            if signature == "seeded":
                inputs["seed"] = np.zeros((1, 2), "int32")
            for name, array in inputs.items():
                request.inputs[name].CopyFrom(tf.make_tensor_proto(array))
            expected.append(log)
        assert found == expected


WITHOUT_TFVN = """
import importlib.util, sys

for name in ("tfvn", "keras", "tf_keras", "tensorflow_probability"):
    sys.modules[name] = None  # not installed where models are served
import numpy as np
import tensorflow as tf

export, loader_file = sys.argv[1:]
x = tf.ones((2, 4))
seed = tf.zeros((2, 2), tf.int32)
python = tf.saved_model.load(export)
print(python.signatures["seeded"](inputs=x, seed=seed)["mean"].numpy().ravel().tolist())
spec = importlib.util.spec_from_file_location("loader", loader_file)
loader = importlib.util.module_from_spec(spec)
sys.modules["loader"] = loader
spec.loader.exec_module(loader)
served = loader.LoadedModel(export)
inputs = {"inputs": x.numpy(), "seed": seed.numpy()}
print(served(inputs, "seeded")["mean"].ravel().tolist())
print(served({"inputs": x.numpy()}, "samples")["samples"].ravel().tolist())
"""


def test_needs_nothing_but_tensorflow(export, loaded):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TFVN, export, pathlib.Path(loader.__file__)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    python, served, samples = (
        np.array(eval(line)) for line in done.stdout.split("\n")[:3]
    )
    x, seed = np.ones((2, 4), "float32"), np.zeros((2, 2), "int32")
    expected = loaded({"inputs": x, "seed": seed}, "seeded")["mean"].ravel()
    np.testing.assert_allclose(python, expected, atol=1e-5)
    np.testing.assert_allclose(served, expected, atol=1e-5)
    # Another process is another stream of noise.
    own = loaded({"inputs": x}, "samples")["samples"].ravel()
    assert not np.any(np.float32(samples) == own)
