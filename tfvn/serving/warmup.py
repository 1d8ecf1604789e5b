"""Requests that TensorFlow Serving sends to a model to warm it up before clients use it.

The file is a TFRecord of `tensorflow.serving.PredictionLog` messages. This module writes
them field by field, so that exports need no package except TensorFlow.
"""

import pathlib
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

NAME = "tf_serving_warmup_requests"

# Field numbers of the messages, from TensorFlow Serving's `.proto` files.
_LOG_PREDICT = 6  # PredictionLog.predict_log
_PREDICT_REQUEST = 1  # PredictLog.request
_REQUEST_MODEL = 1  # PredictRequest.model_spec
_REQUEST_INPUTS = 2  # PredictRequest.inputs, a map
_MODEL_NAME = 1  # ModelSpec.name
_MODEL_SIGNATURE = 3  # ModelSpec.signature_name
_MAP_KEY, _MAP_VALUE = 1, 2


def write(
    folder: pathlib.Path,
    model_name: str,
    requests: Mapping[str, Mapping[str, np.ndarray]],
) -> None:
    """Writes the file.

    Args:
        folder: The directory `assets.extra` of an export.
        model_name: The name that the model is served under.
        requests: For each signature, its inputs by name.
    """
    with tf.io.TFRecordWriter(str(folder / NAME)) as writer:
        for signature, inputs in requests.items():
            writer.write(_prediction_log(model_name, signature, inputs))


def _prediction_log(
    model_name: str, signature: str, inputs: Mapping[str, np.ndarray]
) -> bytes:
    model = _field(_MODEL_NAME, model_name.encode()) + _field(
        _MODEL_SIGNATURE, signature.encode()
    )
    request = _field(_REQUEST_MODEL, model)
    for name, array in inputs.items():
        tensor = tf.make_tensor_proto(array).SerializeToString()
        entry = _field(_MAP_KEY, name.encode()) + _field(_MAP_VALUE, tensor)
        request += _field(_REQUEST_INPUTS, entry)
    return _field(_LOG_PREDICT, _field(_PREDICT_REQUEST, request))


def _field(number: int, content: bytes) -> bytes:
    """Returns a field of bytes: its number and type, its length, the bytes."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Returns an integer with seven bits per byte, the lowest bits first."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
