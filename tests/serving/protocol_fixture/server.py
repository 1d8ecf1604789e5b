"""A protocol fixture: TensorFlow Serving's protocols over TensorFlow's C++ loader.

It is no TensorFlow Serving. It takes and gives the same messages, by gRPC and REST, and
treats them by the same rules: which inputs a signature wants, what types they have, how a
JSON row becomes a tensor, what a batch may be merged with. Where the real server does not
look, at shapes for one, it does not either.
"""

import http.server
import pathlib
import threading
from collections.abc import Mapping, Sequence
from concurrent import futures
from typing import Any, Self

import grpc
import numpy as np
import tensorflow as tf
from loader import LoadedModel
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    model_service_pb2_grpc,
    prediction_log_pb2,
    prediction_service_pb2_grpc,
)

from protocol_fixture.errors import invalid, missing, precondition
from protocol_fixture.grpc_services import (
    ModelService,
    PredictionService,
    to_arrays,
)
from protocol_fixture.rest import RestHandler
from tfvn.serving import warmup

# As in TensorFlow Serving.
_MOST_WARM_UPS = 1000


class ProtocolFixture:
    """Serves a directory of versions on loopback, on ports that are free.

    Args:
        base: The directory of a model, whose name is the model's.
        batching: Whether each request is merged with rows of somebody else.
        all_versions: Whether older versions are kept, where else the newest is.
        config: A `ModelConfig`, whose policy chooses the versions, and whose labels name
            them.

    Attributes:
        grpc_address: Host and port, while it runs.
        rest_address: The beginning of its URLs, while it runs.
        models: What is served, by version.
        warmed_up: How many requests each version was warmed up with.
    """

    def __init__(
        self,
        base: pathlib.Path,
        batching: bool = False,
        all_versions: bool = False,
        config: Any = None,
    ):
        self.base, self.name, self.config = base, base.name, config
        self.batching, self.all_versions = batching, all_versions
        self.models: dict[int, LoadedModel] = {}
        self.definitions: dict[int, dict[str, Any]] = {}
        self.warmed_up: dict[int, int] = {}

    def __enter__(self) -> Self:
        self.poll()
        self._grpc = grpc.server(futures.ThreadPoolExecutor(16))
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
            PredictionService(self), self._grpc
        )
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(
            ModelService(self), self._grpc
        )
        self.grpc_address = f"127.0.0.1:{self._grpc.add_insecure_port('127.0.0.1:0')}"
        self._grpc.start()
        handler = type("Handler", (RestHandler,), {"fixture": self})
        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.rest_address = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._grpc.stop(None).wait()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        for model in self.models.values():
            model.close()

    def poll(self) -> None:
        """Does what the server does every second: loads versions that have appeared."""
        found = sorted(int(p.name) for p in self.base.iterdir() if p.name.isdigit())
        wanted = found if self.all_versions else self._chosen(found)
        for version in wanted:
            if version not in self.models:
                self._load(version)
        for version in set(self.models) - set(wanted):
            self.models.pop(version).close()

    def predict(
        self,
        spec: Any,
        arrays: Mapping[str, np.ndarray],
        output_filter: Sequence[str] = (),
    ) -> tuple[int, dict[str, np.ndarray]]:
        """Answers a request, and returns the version that did.

        Args:
            spec: A `ModelSpec`.
            arrays: The inputs by name.
            output_filter: Names of the outputs that are wanted; none are all.
        """
        version = self.version_of(spec)
        model = self.models[version]
        name = spec.signature_name or "serving_default"
        if name not in model.signatures:
            raise precondition(f'Serving signature key "{name}" not found.')
        signature = model.signatures[name]
        if set(arrays) != set(signature.inputs):
            raise invalid(
                f"Request inputs do not match required inputs for model "
                f"`{self.name}`. Send:{sorted(arrays)}. "
                f"Required: {sorted(signature.inputs)}."
            )
        for key, array in arrays.items():
            expected = signature.inputs[key].dtype
            if tf.as_dtype(array.dtype) != expected:
                raise invalid(f"Expected input {key} to be {expected.name}.")
        for key in output_filter:
            if key not in signature.outputs:
                raise invalid(f"output tensor alias not found in signature: {key}")
        run = _run_merged if self.batching else LoadedModel.run
        outputs = run(model, arrays, name)
        return version, {key: outputs[key] for key in output_filter or outputs}

    def _chosen(self, found: list[int]) -> list[int]:
        """Returns the versions that are to be served, among those that are there."""
        policy = None if self.config is None else self.config.model_version_policy
        if policy is None or policy.WhichOneof("policy_choice") is None:
            return found[-1:]
        if policy.HasField("specific"):
            return [version for version in found if version in policy.specific.versions]
        if policy.HasField("all"):
            return found
        return found[-(policy.latest.num_versions or 1) :]

    def version_of(self, spec: Any) -> int:
        """Returns the version that a `ModelSpec` means."""
        if spec.name != self.name:
            raise missing(f"Servable not found for request: Latest({spec.name})")
        if spec.version_label:
            labels = {} if self.config is None else self.config.version_labels
            if spec.version_label not in labels:
                label = spec.version_label
                raise invalid(f"Unrecognized servable version label: {label}")
            return labels[spec.version_label]
        if not spec.HasField("version"):
            return max(self.models)
        if spec.version.value not in self.models:
            raise missing(f"Servable not found: {spec.name}, {spec.version.value}")
        return spec.version.value

    def signature_map(self, version: int) -> Any:
        """Returns the signatures of a version, as a message."""
        definitions = get_model_metadata_pb2.SignatureDefMap()
        for name, definition in self.definitions[version].items():
            definitions.signature_def[name].CopyFrom(definition)
        return definitions

    def _load(self, version: int) -> None:
        path = self.base / str(version)
        model = LoadedModel(path)
        saved = saved_model_pb2.SavedModel.FromString(
            (path / "saved_model.pb").read_bytes()
        )
        (meta_graph,) = saved.meta_graphs
        self.definitions[version] = dict(meta_graph.signature_def)
        self.models[version] = model
        # A version whose warm-up fails is not served.
        try:
            self.warmed_up[version] = self._warm_up(
                path / "assets.extra" / warmup.NAME, version
            )
        except tf.errors.OpError:
            self.models.pop(version).close()
            raise

    def _warm_up(self, path: pathlib.Path, version: int) -> int:
        if not path.exists():
            return 0
        records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
        if len(records) > _MOST_WARM_UPS:
            raise invalid(f"Number of warmup records exceeds {_MOST_WARM_UPS}.")
        for record in records:
            log = prediction_log_pb2.PredictionLog.FromString(record)
            request = log.predict_log.request
            request.model_spec.version.value = version
            self.predict(request.model_spec, to_arrays(request.inputs))
        return len(records)


def _run_merged(
    model: LoadedModel, arrays: Mapping[str, np.ndarray], signature: str
) -> dict[str, np.ndarray]:
    """Runs a request between rows of other values, and cuts its own out."""
    if any(array.ndim == 0 for array in arrays.values()):
        raise invalid("Batching input tensors must have at least one dimension.")
    sizes = {len(array) for array in arrays.values()}
    if len(sizes) != 1:
        raise invalid("Batching input tensors must have equal 0th-dimension size.")
    (size,) = sizes
    merged = {
        key: np.concatenate([_foreign(a, 1), a, _foreign(a, 2)])
        for key, a in arrays.items()
    }
    outputs = model.run(merged, signature)
    for key, output in outputs.items():
        if output.ndim == 0 or len(output) != size + 3:
            raise precondition(
                f"Batched output tensor {key} has not the batch as 0th dimension."
            )
    return {key: output[1 : 1 + size] for key, output in outputs.items()}


def _foreign(array: np.ndarray, count: int) -> np.ndarray:
    if array.dtype.kind == "O":
        return np.full((count, *array.shape[1:]), b"of somebody else", object)
    generator = np.random.default_rng(count)
    values = generator.normal(size=(count, *array.shape[1:]))
    return (50 * values if array.dtype.kind in "iu" else values).astype(array.dtype)
