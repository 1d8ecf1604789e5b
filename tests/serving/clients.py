"""Ways to ask a served model, which all take and give arrays by name."""

import json
import urllib.error
import urllib.request

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


class RefusedError(Exception):
    """What a client is told in place of an answer, with the protocol's code."""

    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


class CppClient:
    """No protocol at all: the C++ loader."""

    def __init__(self, model):
        self._model = model

    def predict(self, inputs, signature="serving_default"):
        try:
            return self._model.run(inputs, signature)
        except (KeyError, tf.errors.OpError) as error:
            raise RefusedError(
                getattr(error, "error_code", None), str(error)
            ) from error


class GrpcClient:
    """The gRPC services."""

    def __init__(self, address, name):
        self._name = name
        self.channel = grpc.insecure_channel(address)
        self._predictions = prediction_service_pb2_grpc.PredictionServiceStub(
            self.channel
        )
        self._models = model_service_pb2_grpc.ModelServiceStub(self.channel)

    def predict(self, inputs, signature="", version=None, output_filter=()):
        request = predict_pb2.PredictRequest(output_filter=output_filter)
        self._fill(request.model_spec, version)
        request.model_spec.signature_name = signature
        for name, value in inputs.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
        response = self._call(self._predictions.Predict, request)
        return {n: tf.make_ndarray(proto) for n, proto in response.outputs.items()}

    def signatures(self):
        request = get_model_metadata_pb2.GetModelMetadataRequest()
        self._fill(request.model_spec)
        request.metadata_field.append("signature_def")
        response = self._call(self._predictions.GetModelMetadata, request)
        found = get_model_metadata_pb2.SignatureDefMap()
        response.metadata["signature_def"].Unpack(found)
        return found.signature_def

    def versions(self, version=None):
        request = get_model_status_pb2.GetModelStatusRequest()
        self._fill(request.model_spec, version)
        response = self._call(self._models.GetModelStatus, request)
        return [status.version for status in response.model_version_status]

    def _fill(self, spec, version=None):
        spec.name = self._name
        if version is not None:
            spec.version.value = version

    def _call(self, method, request):
        try:
            return method(request, timeout=60)
        except grpc.RpcError as error:
            raise RefusedError(error.code().name, error.details()) from error


class RestClient:
    """The REST interface, in its row or columnar form."""

    def __init__(self, address, name, is_row):
        self._url, self._is_row = f"{address}/v1/models/{name}", is_row

    def predict(self, inputs, signature=None, version=None):
        columns = {name: np.asarray(value).tolist() for name, value in inputs.items()}
        if self._is_row:
            rows = zip(*columns.values(), strict=True)
            body = {"instances": [dict(zip(columns, row, strict=True)) for row in rows]}
        else:
            body = {"inputs": columns}
        return self._arrays(self.post(body, signature, version))

    def post(self, body, signature=None, version=None):
        """Returns the answer to a request as it is."""
        if signature:
            body = {"signature_name": signature, **body}
        where = "" if version is None else f"/versions/{version}"
        return self._open(f"{where}:predict", json.dumps(body).encode())

    def get(self, what=""):
        return self._open(what)

    def _open(self, what, body=None):
        try:
            with urllib.request.urlopen(self._url + what, body, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise RefusedError(error.code, json.load(error)["error"]) from None

    def _arrays(self, answer):
        if not self._is_row:
            columns = answer["outputs"]
        else:
            rows = answer["predictions"]
            if not isinstance(rows[0], dict):
                columns = rows
            else:
                columns = {name: [row[name] for row in rows] for name in rows[0]}
        if not isinstance(columns, dict):
            # An only output goes without its name.
            columns = {"samples": columns}
        return {name: np.asarray(value, "float32") for name, value in columns.items()}
