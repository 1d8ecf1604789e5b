"""The gRPC interface of the protocol fixture."""

import contextlib
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from protocol_fixture.errors import invalid

_AVAILABLE = get_model_status_pb2.ModelVersionStatus.AVAILABLE
_CODES = {code.value[0]: code for code in grpc.StatusCode}


def to_arrays(inputs: Any) -> dict[str, np.ndarray]:
    """Returns the tensors of a request."""
    try:
        return {name: tf.make_ndarray(proto) for name, proto in inputs.items()}
    except (TypeError, ValueError) as error:
        raise invalid(f"tensor parsing error: {error}") from error


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers requests for predictions and for metadata.

    Args:
        fixture: The `ProtocolFixture` that has the models.
    """

    def __init__(self, fixture: Any):
        self._fixture = fixture

    def Predict(self, request: Any, context: Any) -> Any:  # noqa: N802
        with _errors_for(context):
            version, outputs = self._fixture.predict(
                request.model_spec, to_arrays(request.inputs), request.output_filter
            )
        response = predict_pb2.PredictResponse()
        response.model_spec.CopyFrom(request.model_spec)
        response.model_spec.version.value = version
        for name, output in outputs.items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(output))
        return response

    def GetModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        with _errors_for(context):
            if list(request.metadata_field) != ["signature_def"]:
                raise invalid(f"Metadata field {request.metadata_field} not supported")
            version = self._fixture.version_of(request.model_spec)
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.model_spec.name = self._fixture.name
        response.model_spec.version.value = version
        response.metadata["signature_def"].Pack(self._fixture.signature_map(version))
        return response


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """Answers requests for the versions there are.

    Args:
        fixture: The `ProtocolFixture` that has the models.
    """

    def __init__(self, fixture: Any):
        self._fixture = fixture

    def GetModelStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        with _errors_for(context):
            wanted = [self._fixture.version_of(request.model_spec)]
        if not request.model_spec.HasField("version"):
            wanted = list(self._fixture.models)
        response = get_model_status_pb2.GetModelStatusResponse()
        for version in wanted:
            response.model_version_status.add(version=version, state=_AVAILABLE)
        return response


@contextlib.contextmanager
def _errors_for(context: Any) -> Iterator[None]:
    """Hands the errors of TensorFlow to a client of gRPC."""
    try:
        yield
    except tf.errors.OpError as error:
        context.abort(_CODES[error.error_code], error.message)
