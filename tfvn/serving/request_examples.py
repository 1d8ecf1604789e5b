"""Requests for each signature of an export, which run as they are printed."""

import base64
import json
import shlex
import urllib.parse
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfvn.serving import card
from tfvn.serving.endpoints import SEED
from tfvn.serving.saved_model import own_digits

# One row of inputs, if it is too long for the page.
EXAMPLE = "example.json"

# A row with more values goes to a file.
MOST_VALUES = 32

_ADDRESS_REST, _ADDRESS_GRPC = "localhost:8501", "localhost:8500"
_SEED = [1, 2]

_REST = """\
import json
import urllib.request

{row}


def ask(signature, rows):
    body = json.dumps({{"signature_name": signature, "instances": rows}})
    with urllib.request.urlopen(
        "http://{address}/v1/models/{url}:predict", body.encode()
    ) as answer:
        return json.load(answer)["predictions"]


{calls}"""

_GRPC = """\
{imports}
import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

{row}
types = {types}
{decoded}

def ask(stub, signature, rows):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = {name!r}
    request.model_spec.signature_name = signature
    for name in rows[0]:
        values = [{value} for row in rows]
        request.inputs[name].CopyFrom(tf.make_tensor_proto(values, types[name]))
    answer = stub.Predict(request, timeout=60)
    return {{name: tf.make_ndarray(value) for name, value in answer.outputs.items()}}


with grpc.insecure_channel("{address}") as channel:
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
{calls}"""

_DECODED = '''

def decoded(value):
    """Returns texts in bytes, which JSON cannot have."""
    if isinstance(value, list):
        return [decoded(part) for part in value]
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else value

'''


class Requests:
    """One request for each signature, in three languages.

    Args:
        name: The name that the model is served under.
        row: The inputs of one row by name, as JSON has them.
        is_long: Whether the row is in a file, and not in the requests.
        signatures: The names of the signatures.
    """

    def __init__(
        self, name: str, row: dict[str, Any], is_long: bool, signatures: Sequence[str]
    ):
        self._name, self._row, self._is_long = name, row, is_long
        self._signatures = signatures
        self._url = urllib.parse.quote(name, safe="")

    def curl(self) -> str:
        """Returns a command for each signature."""
        return "\n".join(self._curl(signature) for signature in self._signatures)

    def _curl(self, signature: str) -> str:
        url = f"{_ADDRESS_REST}/v1/models/{self._url}:predict"
        if self._is_long:
            code = (
                "import json; "
                f'row = json.load(open("{card.FOLDER}/{EXAMPLE}")); '
                f"print(json.dumps("
                f'{{"signature_name": "{signature}", "instances": [{_seeded(signature)}]}}'
                "))"
            )
            return f"python3 -c {shlex.quote(code)} |\n    curl {url} -d @-"
        row = {**self._row, SEED: _SEED} if signature == "seeded" else self._row
        body = json.dumps({"signature_name": signature, "instances": [row]})
        return f"curl {url} \\\n    -d {shlex.quote(body)}"

    def rest(self) -> str:
        """Returns a program with a request for each signature."""
        calls = [f'print(ask("{x}", [{_seeded(x)}]))' for x in self._signatures]
        return _REST.format(
            row=self._python_row(),
            address=_ADDRESS_REST,
            url=self._url,
            calls="\n".join(calls),
        )

    def grpc(self, types: dict[str, str]) -> str:
        """Returns a program with a request for each signature.

        Args:
            types: The names of the inputs' types, by the names of the inputs.
        """
        types = {**types, SEED: "int32"}
        calls = [
            f'    print(ask(stub, "{x}", [{_seeded(x)}]))' for x in self._signatures
        ]
        has_bytes = '{"b64": ' in json.dumps(self._row)
        imports = ["base64"] * has_bytes + ["json"] * self._is_long
        text = _GRPC.format(
            imports="\n".join(f"import {module}" for module in imports) + "\n",
            row=self._python_row(),
            types=types,
            decoded=_DECODED.rstrip("\n") + "\n" if has_bytes else "",
            name=self._name,
            value="decoded(row[name])" if has_bytes else "row[name]",
            address=_ADDRESS_GRPC,
            calls="\n".join(calls),
        )
        return text.lstrip("\n")

    def _python_row(self) -> str:
        if self._is_long:
            return (
                f'with open("{card.FOLDER}/{EXAMPLE}") as file:\n'
                "    row = json.load(file)"
            )
        return f"row = {self._row!r}"


def _seeded(signature: str) -> str:
    return f'{{**row, "{SEED}": {_SEED}}}' if signature == "seeded" else "row"


def to_json(value: Any) -> Any:
    """Returns an array as the server wants it in JSON."""
    value = np.asarray(value)
    if value.dtype == object:
        flat = [_text(text) for text in value.reshape(-1).tolist()]
        texts = np.empty(len(flat), object)
        texts[:] = flat
        return texts.reshape(value.shape).tolist()
    if value.dtype.kind not in "biuf":
        # NumPy cannot make lists of the half precision types of ml_dtypes.
        value = value.astype("float32")
    return own_digits(value).tolist()


def _text(text: bytes) -> Any:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(text).decode()}
