"""Loads and calls SavedModels with TensorFlow's Python loader.

TensorFlow Serving uses another loader, written in C++, which does not check the shapes of
inputs. The tests load exports with that one as well.
"""

import dataclasses
import functools
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import message
from tensorflow.core.protobuf import saved_model_pb2

from tfvn.serving.versions import FILE

_TAG = "serve"

# Lines of an error that say where it was raised, not what is wrong.
_WHERE = re.compile(r"\s|Graph execution error:|Detected at node|<stack traces|$")
_SEVERAL = re.compile(r"\(0\)\s*\w+:\s*(.+)")
_OPS = re.compile(r"\{\{function_node [^}]*\}\} ?| ?\[Op:[^\]]*\]")


@dataclasses.dataclass(frozen=True)
class Signature:
    """The inputs and outputs of a signature, by name."""

    inputs: dict[str, tf.TensorSpec]
    outputs: dict[str, tf.TensorSpec]


class SavedModel:
    """A SavedModel, which is loaded at its first call.

    Args:
        path: The directory of the SavedModel.

    Attributes:
        signatures: The signatures, by name.
    """

    def __init__(self, path: pathlib.Path):
        self._path = path
        self._meta_graph = _read(path / FILE)
        self.signatures = {
            # TensorFlow's internal signatures begin with underscores.
            name: Signature(_specs(definition.inputs), _specs(definition.outputs))
            for name, definition in sorted(self._meta_graph.signature_def.items())
            if not name.startswith("__")
        }

    @functools.cached_property
    def _loaded(self) -> Any:
        # Kept: signatures do not keep the variables of their model alive.
        return tf.saved_model.load(str(self._path))

    def __call__(
        self, inputs: Mapping[str, Any], signature: str = "serving_default"
    ) -> dict[str, np.ndarray]:
        """Returns the outputs of a signature, by name.

        Args:
            inputs: Arrays, by the names that the signature gives them.
            signature: Name of the signature.

        Raises:
            ValueError: If an array cannot be converted to the type of the signature
                without changing its values.
            tf.errors.OpError: If the graph refuses the inputs.
        """
        specs = self.signatures[signature].inputs
        tensors = {
            name: tf.constant(to_array(value, specs[name], f"Input `{name}`"))
            for name, value in inputs.items()
        }
        outputs = self._loaded.signatures[signature](**tensors)
        return {name: outputs[name].numpy() for name in sorted(outputs)}

    def ops(self) -> Iterator[str]:
        """Returns the types of all operations, also of those inside functions."""
        graph = self._meta_graph.graph_def
        for nodes in (graph.node, *(f.node_def for f in graph.library.function)):
            for node in nodes:
                yield node.op


def to_array(value: Any, spec: tf.TensorSpec, what: str) -> np.ndarray:
    """Returns a value as an array of a type, and raises if that would change the value.

    Floats and integers may be rounded to floats. Only whole numbers become integers, and
    only texts become strings.

    Args:
        value: Anything that NumPy can turn into an array.
        spec: A spec with the type of the array; its shape is not used.
        what: The name of the value in error messages.
    """
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{what} must be an array. Received: {error}") from error
    wanted = spec.dtype
    if wanted == tf.string:
        flat = array.ravel().tolist()
        if not all(isinstance(text, str | bytes) for text in flat):
            raise ValueError(
                f"{what} must be strings. Received: an array of {array.dtype}"
            )
        texts = np.empty(len(flat), object)
        texts[:] = [t.encode() if isinstance(t, str) else t for t in flat]
        return texts.reshape(array.shape)
    if array.dtype.kind not in "biuf":
        # NumPy has no kind for the half precision types of ml_dtypes.
        is_number = array.dtype == wanted.as_numpy_dtype and wanted.is_floating
        if not is_number:
            raise ValueError(
                f"{what} must be numbers that can be converted to {wanted.name}. "
                f"Received: an array of {array.dtype}"
            )
    with np.errstate(invalid="ignore", over="ignore"):
        converted = array.astype(wanted.as_numpy_dtype)
    if not wanted.is_floating and not np.array_equal(converted, array):
        raise ValueError(
            f"{what} must have values that {wanted.name} can represent without "
            f"rounding. Received: {array[converted != array].flat[0]} in an array of "
            f"{array.dtype}"
        )
    return converted


def own_digits(array: np.ndarray) -> np.ndarray:
    """Returns floats in float64, with the digits that their own type shows.

    0.1 in float32 becomes 0.1, and not 0.10000000149011612.
    """
    if array.dtype.kind != "f" or array.dtype == np.float64:
        return array
    return array.astype(np.str_).astype("float64")


def reason(error: tf.errors.OpError) -> str:
    """Returns the line of a TensorFlow error that says what is wrong."""
    lines = error.message.splitlines() or [type(error).__name__]
    several = [found[1] for found in map(_SEVERAL.search, lines) if found]
    told = [line for line in lines if not _WHERE.match(line)]
    return _OPS.sub("", (several or told or lines)[0])


def _read(path: pathlib.Path) -> Any:
    try:
        saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    except message.DecodeError as error:
        raise ValueError(
            "The file of the SavedModel can't be read; export the model again. "
            f"Received: {str(path)!r}, which is damaged"
        ) from error
    for meta_graph in saved.meta_graphs:
        if _TAG in meta_graph.meta_info_def.tags:
            return meta_graph
    raise ValueError(
        f"The SavedModel must have a graph with the tag {_TAG!r}. Received: "
        f"{str(path)!r}, which has none"
    )


def _specs(infos: Any) -> dict[str, tf.TensorSpec]:
    return {
        name: tf.TensorSpec(tf.TensorShape(info.tensor_shape), info.dtype, name)
        for name, info in sorted(infos.items())
    }
