"""A protocol fixture: TensorFlow Serving's protocols over TensorFlow's C++ loader.

It is no TensorFlow Serving. It takes and gives the same messages, by gRPC and REST, and
treats them by the same rules: which inputs a signature wants, what types they have, how a
JSON row becomes a tensor, what a batch may be merged with. Where the real server does not
look, at shapes for one, it does not either.
"""

import contextlib
import http.server
import threading
from concurrent import futures

import grpc
import numpy as np
import tensorflow as tf
from rest_fixture import RestHandler, invalid, missing, precondition
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_log_pb2,
    prediction_service_pb2_grpc,
)

from tfvn.serving import LoadedModel

WARM_UP = "assets.extra/tf_serving_warmup_requests"
MOST_WARM_UPS = 1000
_AVAILABLE = get_model_status_pb2.ModelVersionStatus.AVAILABLE
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class ProtocolFixture:
    """Serves a directory of versions on loopback, on ports that are free.

    Args:
        base: The directory of a model, whose name is the model's.
        batching: Whether each request is merged with rows of somebody else.
        all_versions: Whether older versions are kept, where else the newest is.
    """

    def __init__(self, base, batching=False, all_versions=False):
        self.base, self.name = base, base.name
        self.batching, self.all_versions = batching, all_versions
        self.models = {}
        self.definitions = {}
        self.warmed_up = {}

    def __enter__(self):
        self.poll()
        self._grpc = grpc.server(futures.ThreadPoolExecutor(16))
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
            _Predictions(self), self._grpc
        )
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(
            _Models(self), self._grpc
        )
        self.grpc_address = f"127.0.0.1:{self._grpc.add_insecure_port('127.0.0.1:0')}"
        self._grpc.start()
        handler = type("Handler", (RestHandler,), {"fixture": self})
        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.rest_address = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._grpc.stop(None).wait()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        for model in self.models.values():
            model.close()

    def poll(self):
        """Does what the server does every second: loads versions that have appeared."""
        found = sorted(int(p.name) for p in self.base.iterdir() if p.name.isdigit())
        wanted = found if self.all_versions else found[-1:]
        for version in wanted:
            if version not in self.models:
                self._load(version)
        for version in set(self.models) - set(wanted):
            self.models.pop(version).close()

    def predict(self, spec, arrays, output_filter=()):
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

    def version_of(self, spec):
        """Returns the version that a `ModelSpec` means."""
        if spec.name != self.name:
            raise missing(f"Servable not found for request: Latest({spec.name})")
        if not spec.HasField("version"):
            return max(self.models)
        if spec.version.value not in self.models:
            raise missing(f"Servable not found: {spec.name}, {spec.version.value}")
        return spec.version.value

    def signature_map(self, version):
        """Returns the signatures of a version, as a message."""
        definitions = get_model_metadata_pb2.SignatureDefMap()
        for name, definition in self.definitions[version].items():
            definitions.signature_def[name].CopyFrom(definition)
        return definitions

    def _load(self, version):
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
            self.warmed_up[version] = self._warm_up(path / WARM_UP, version)
        except tf.errors.OpError:
            self.models.pop(version).close()
            raise

    def _warm_up(self, path, version):
        if not path.exists():
            return 0
        records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
        if len(records) > MOST_WARM_UPS:
            raise invalid(f"Number of warmup records exceeds {MOST_WARM_UPS}.")
        for record in records:
            log = prediction_log_pb2.PredictionLog.FromString(record)
            request = log.predict_log.request
            request.model_spec.version.value = version
            self.predict(request.model_spec, _to_arrays(request.inputs))
        return len(records)


def _run_merged(model, arrays, signature):
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


def _foreign(array, count):
    generator = np.random.default_rng(count)
    values = generator.normal(size=(count, *array.shape[1:]))
    return (50 * values if array.dtype.kind in "iu" else values).astype(array.dtype)


def _to_arrays(inputs):
    try:
        return {name: tf.make_ndarray(proto) for name, proto in inputs.items()}
    except (TypeError, ValueError) as error:
        raise invalid(f"tensor parsing error: {error}") from error


@contextlib.contextmanager
def _errors_for(context):
    """Hands the errors of TensorFlow to a client of gRPC."""
    try:
        yield
    except tf.errors.OpError as error:
        context.abort(_CODES[error.error_code], error.message)


class _Predictions(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, fixture):
        self._fixture = fixture

    def Predict(self, request, context):  # noqa: N802
        with _errors_for(context):
            version, outputs = self._fixture.predict(
                request.model_spec, _to_arrays(request.inputs), request.output_filter
            )
        response = predict_pb2.PredictResponse()
        response.model_spec.CopyFrom(request.model_spec)
        response.model_spec.version.value = version
        for name, output in outputs.items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(output))
        return response

    def GetModelMetadata(self, request, context):  # noqa: N802
        with _errors_for(context):
            if list(request.metadata_field) != ["signature_def"]:
                raise invalid(f"Metadata field {request.metadata_field} not supported")
            version = self._fixture.version_of(request.model_spec)
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.model_spec.name = self._fixture.name
        response.model_spec.version.value = version
        response.metadata["signature_def"].Pack(self._fixture.signature_map(version))
        return response


class _Models(model_service_pb2_grpc.ModelServiceServicer):
    def __init__(self, fixture):
        self._fixture = fixture

    def GetModelStatus(self, request, context):  # noqa: N802
        with _errors_for(context):
            wanted = [self._fixture.version_of(request.model_spec)]
        if not request.model_spec.HasField("version"):
            wanted = list(self._fixture.models)
        response = get_model_status_pb2.GetModelStatusResponse()
        for version in wanted:
            response.model_version_status.add(version=version, state=_AVAILABLE)
        return response
