"""The REST interface of the protocol fixture: JSON to tensors and back."""

import base64
import http.server
import json
import re
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import json_format
from tensorflow_serving.apis import predict_pb2

from protocol_fixture.errors import invalid, missing, precondition

_ROUTE = re.compile(
    r"/v1/models/([^/:]+)(?:/versions/(\d+)|/labels/([^/:]+))?(/metadata|:predict)?"
)


class RestHandler(http.server.BaseHTTPRequestHandler):
    """Answers `GET` and `POST` as the server does.

    Attributes:
        fixture: The `ProtocolFixture` that has the models; a subclass sets it.
    """

    fixture: Any = None
    protocol_version = "HTTP/1.1"
    # A request that is not followed by another lets go of its thread.
    timeout = 5
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None:
        """Keeps the console quiet."""

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(lambda spec, what: self._post(spec, what, body))

    def _answer(self, method: Callable) -> None:
        status, answer = 200, None
        try:
            match = _ROUTE.fullmatch(self.path)
            if match is None:
                raise missing(f"Malformed request: {self.path}")
            spec = predict_pb2.PredictRequest().model_spec
            spec.name = urllib.parse.unquote(match[1])
            if match[2]:
                spec.version.value = int(match[2])
            if match[3]:
                spec.version_label = match[3]
            answer = method(spec, match[4])
        except tf.errors.OpError as error:
            status = 404 if error.error_code == tf.errors.NOT_FOUND else 400
            answer = {"error": error.message}
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _get(self, spec: Any, what: str | None) -> dict[str, Any]:
        version = self.fixture.version_of(spec)
        if what == "/metadata":
            definitions = self.fixture.signature_map(version)
            fields = json_format.MessageToDict(
                definitions, preserving_proto_field_name=True
            )
            model = {"name": spec.name, "signature_name": "", "version": str(version)}
            return {"model_spec": model, "metadata": {"signature_def": fields}}
        if what is not None:
            raise missing(f"Malformed request: {self.path}")
        shown = [version] if spec.HasField("version") else sorted(self.fixture.models)
        status = {"error_code": "OK", "error_message": ""}
        return {
            "model_version_status": [
                {"version": str(v), "state": "AVAILABLE", "status": status}
                for v in shown
            ]
        }

    def _post(self, spec: Any, what: str | None, body: bytes) -> dict[str, Any]:
        if what != ":predict":
            raise missing(f"Malformed request: {self.path}")
        try:
            request = json.loads(body)
        except ValueError as error:
            raise invalid(f"JSON Parse error: {error}") from error
        spec.signature_name = request.get("signature_name", "")
        is_row = "instances" in request
        if is_row == ("inputs" in request):
            raise invalid("Request must have one of 'instances' and 'inputs'.")
        model = self.fixture.models[self.fixture.version_of(spec)]
        signature = model.signatures.get(spec.signature_name or "serving_default")
        if signature is None:
            raise precondition(f'Signature "{spec.signature_name}" not found.')
        if is_row:
            columns = _columns(request["instances"], signature.inputs)
        else:
            columns = request["inputs"]
            if not isinstance(columns, dict):
                columns = _by_the_only_name(columns, signature.inputs)
        arrays = {
            name: _parse(name, value, signature.inputs)
            for name, value in columns.items()
        }
        _, outputs = self.fixture.predict(spec, arrays)
        return _rows(outputs) if is_row else _only({"outputs": _lists(outputs)})


def _columns(instances: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Turns rows into columns, which is where the batch dimension comes from."""
    if not isinstance(instances, list) or not instances:
        raise invalid("'instances' must be a list of at least one row.")
    if not isinstance(instances[0], dict):
        return _by_the_only_name(instances, inputs)
    names = set(instances[0])
    if any(not isinstance(row, dict) or set(row) != names for row in instances):
        raise invalid("All rows must have the same inputs.")
    return {name: [row[name] for row in instances] for name in names}


def _by_the_only_name(value: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    if len(inputs) != 1:
        raise invalid(f"Inputs must be named: {sorted(inputs)}.")
    return dict.fromkeys(inputs, value)


def _parse(name: str, value: Any, inputs: Mapping[str, Any]) -> np.ndarray:
    if name not in inputs:
        raise invalid(f"Input {name} is not in the signature.")
    dtype = inputs[name].dtype.as_numpy_dtype
    is_text = inputs[name].dtype == tf.string
    try:
        array = np.asarray(_decoded(value) if is_text else value)
    except ValueError as error:
        raise invalid(f"Rows of different shapes: {error}") from error
    if is_text:
        if array.size and array.dtype.kind not in "US":
            raise invalid(f"JSON Value: {value!r} Type is not of expected type.")
        texts = [tf.compat.as_bytes(text) for text in array.ravel().tolist()]
        return np.array(texts, object).reshape(array.shape)
    kinds = "biu" if np.issubdtype(dtype, np.integer) else "biuf"
    if array.size and array.dtype.kind not in kinds:
        raise invalid(f"JSON Value: {value!r} Type is not of expected type.")
    return array.astype(dtype)


def _decoded(value: Any) -> Any:
    """Returns texts with those that are written as `{"b64": ...}` in bytes."""
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if isinstance(value, dict) and set(value) == {"b64"}:
        return base64.b64decode(value["b64"])
    return value


def _rows(outputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    sizes = {output.shape[:1] for output in outputs.values()}
    if len(sizes) != 1 or sizes == {()}:
        raise invalid("Tensors in a row format must have the batch as dimension 0.")
    columns = _lists(outputs)
    if len(columns) == 1:
        return {"predictions": next(iter(columns.values()))}
    rows = zip(*columns.values(), strict=True)
    return {"predictions": [dict(zip(columns, row, strict=True)) for row in rows]}


def _lists(outputs: Mapping[str, np.ndarray]) -> dict[str, list]:
    return {name: output.tolist() for name, output in outputs.items()}


def _only(answer: dict[str, Any]) -> dict[str, Any]:
    (columns,) = answer.values()
    return {"outputs": next(iter(columns.values()))} if len(columns) == 1 else answer
