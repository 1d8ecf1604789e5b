"""SavedModels by TensorFlow's Python loader: what they say of themselves, and answers.

The loader that TensorFlow Serving uses is another one, written in C++, which does not look
at the shapes of inputs. The tests load exports by that one as well.
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

FILE = "saved_model.pb"
_TAG = "serve"

# Lines of an error that say where it was raised, and not what is wrong.
_WHERE = re.compile(r"\s|Graph execution error:|Detected at node|<stack traces|$")
_SEVERAL = re.compile(r"\(0\)\s*\w+:\s*(.+)")
_OPS = re.compile(r"\{\{function_node [^}]*\}\} ?| ?\[Op:[^\]]*\]")


@dataclasses.dataclass(frozen=True)
class Signature:
    """The inputs and outputs of a way to ask a model, by name."""

    inputs: dict[str, tf.TensorSpec]
    outputs: dict[str, tf.TensorSpec]


class SavedModel:
    """A SavedModel, which is loaded when it is asked for the first time.

    Args:
        path: The directory of the SavedModel.

    Attributes:
        signatures: What can be asked, by name.
    """

    def __init__(self, path: pathlib.Path):
        self._path = path
        self._meta_graph = _read(path / FILE)
        self.signatures = {
            # What TensorFlow adds for itself begins with underscores.
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
            ValueError: If an array cannot become what the signature wants without
                changing its values.
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
        """Returns the types of all operations, those inside of functions as well."""
        graph = self._meta_graph.graph_def
        for nodes in (graph.node, *(f.node_def for f in graph.library.function)):
            for node in nodes:
                yield node.op


def to_array(value: Any, spec: tf.TensorSpec, what: str) -> np.ndarray:
    """Returns a value as an array of a type, and refuses to change it on the way.

    Floats may be rounded to other floats, and integers to floats; only whole numbers
    become integers, and only texts become strings.

    Args:
        value: What can become an array.
        spec: What is wanted; only its type is looked at.
        what: How an error calls the value.
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
                f"{what} must be texts. Received: an array of {array.dtype}"
            )
        texts = np.empty(len(flat), object)
        texts[:] = [t.encode() if isinstance(t, str) else t for t in flat]
        return texts.reshape(array.shape)
    if array.dtype.kind not in "biuf":
        # The half precision of ml_dtypes is no kind of NumPy's.
        is_number = array.dtype == wanted.as_numpy_dtype and wanted.is_floating
        if not is_number:
            raise ValueError(
                f"{what} must be numbers, as {wanted.name}. "
                f"Received: an array of {array.dtype}"
            )
    with np.errstate(invalid="ignore", over="ignore"):
        converted = array.astype(wanted.as_numpy_dtype)
    if not wanted.is_floating and not np.array_equal(converted, array):
        raise ValueError(
            f"{what} must hold values that {wanted.name} can hold, without rounding. "
            f"Received: {array[converted != array].flat[0]} in an array of {array.dtype}"
        )
    return converted


def reason(error: tf.errors.OpError) -> str:
    """Returns the line of an error of TensorFlow's that says what is wrong."""
    lines = error.message.splitlines() or [type(error).__name__]
    several = [found[1] for found in map(_SEVERAL.search, lines) if found]
    told = [line for line in lines if not _WHERE.match(line)]
    return _OPS.sub("", (several or told or lines)[0])


def _read(path: pathlib.Path) -> Any:
    try:
        saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    except message.DecodeError as error:
        raise ValueError(
            f"The file must be a SavedModel's. Received: {str(path)!r}, which is damaged"
        ) from error
    for meta_graph in saved.meta_graphs:
        if _TAG in meta_graph.meta_info_def.tags:
            return meta_graph
    raise ValueError(
        f"The SavedModel must have a graph with the tag {_TAG!r}. "
        f"Received: {str(path)!r} without one"
    )


def _specs(infos: Any) -> dict[str, tf.TensorSpec]:
    return {
        name: tf.TensorSpec(tf.TensorShape(info.tensor_shape), info.dtype, name)
        for name, info in sorted(infos.items())
    }
