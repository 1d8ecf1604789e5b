"""SavedModels as TensorFlow Serving runs them: by TensorFlow's C++ loader.

`tf.saved_model.load` is another loader, which checks the shapes of inputs where the
server does not. This one is called through TensorFlow's C API, in the library that comes
with TensorFlow.
"""

import ctypes
import dataclasses
import functools
import os
import pathlib
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

_TAG = b"serve"
_VOID = ctypes.c_void_p
_STRING = ctypes.c_char_p
_INT = ctypes.c_int
_SIZE = ctypes.c_size_t
_INT64 = ctypes.c_int64
# The bytes of a `TF_TString`, of which the elements of a tensor of strings are made.
_STRING_SIZE = 24


class _Buffer(ctypes.Structure):
    _fields_ = (("data", _VOID), ("length", _SIZE), ("deallocator", _VOID))


class _Output(ctypes.Structure):
    """An output of an operation of a graph."""

    _fields_ = (("operation", _VOID), ("index", _INT))


_BUFFER = ctypes.POINTER(_Buffer)
_OUTPUTS = ctypes.POINTER(_Output)
_VOIDS = ctypes.POINTER(_VOID)

# The functions of the C API that are used: what they return, and what they take.
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "TF_NewStatus": (_VOID, ()),
    "TF_DeleteStatus": (None, (_VOID,)),
    "TF_GetCode": (_INT, (_VOID,)),
    "TF_Message": (_STRING, (_VOID,)),
    "TF_NewBuffer": (_BUFFER, ()),
    "TF_DeleteBuffer": (None, (_BUFFER,)),
    "TF_NewGraph": (_VOID, ()),
    "TF_DeleteGraph": (None, (_VOID,)),
    "TF_GraphOperationByName": (_VOID, (_VOID, _STRING)),
    "TF_NewSessionOptions": (_VOID, ()),
    "TF_DeleteSessionOptions": (None, (_VOID,)),
    "TF_LoadSessionFromSavedModel": (
        _VOID,
        (
            _VOID,
            _VOID,
            _STRING,
            ctypes.POINTER(_STRING),
            _INT,
            _VOID,
            _BUFFER,
            _VOID,
        ),
    ),
    "TF_SessionRun": (
        None,
        (
            _VOID,
            _VOID,
            _OUTPUTS,
            _VOIDS,
            _INT,
            _OUTPUTS,
            _VOIDS,
            _INT,
            _VOID,
            _INT,
            _VOID,
            _VOID,
        ),
    ),
    "TF_CloseSession": (None, (_VOID, _VOID)),
    "TF_DeleteSession": (None, (_VOID, _VOID)),
    "TF_AllocateTensor": (_VOID, (_INT, ctypes.POINTER(_INT64), _INT, _SIZE)),
    "TF_DeleteTensor": (None, (_VOID,)),
    "TF_TensorData": (_VOID, (_VOID,)),
    "TF_TensorByteSize": (_SIZE, (_VOID,)),
    "TF_TensorType": (_INT, (_VOID,)),
    "TF_NumDims": (_INT, (_VOID,)),
    "TF_Dim": (_INT64, (_VOID, _INT)),
    "TF_StringInit": (None, (_VOID,)),
    "TF_StringCopy": (None, (_VOID, _STRING, _SIZE)),
    "TF_StringGetDataPointer": (_VOID, (_VOID,)),
    "TF_StringGetSize": (_SIZE, (_VOID,)),
    "TF_StringDealloc": (None, (_VOID,)),
}


@dataclasses.dataclass(frozen=True)
class Tensor:
    """What a signature says of an input or output.

    Args:
        name: Its name in the graph.
        dtype: Its type.
        shape: Its shape, `None` for sizes that are not fixed.
    """

    name: str
    dtype: tf.DType
    shape: tuple[int | None, ...]


@dataclasses.dataclass(frozen=True)
class Signature:
    """The inputs and outputs of a way to call a model, by name."""

    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]


class LoadedModel:
    """A SavedModel in a session of TensorFlow's C++ runtime.

    It may be called from several threads. Neither names nor shapes of inputs are checked
    beyond what the graph itself checks: that is how a server behaves.

    Args:
        path: The directory of the SavedModel.

    Attributes:
        signatures: The `Signature`s, by name.
    """

    def __init__(self, path: str | os.PathLike):
        self._api = _library()
        graph = self._api.TF_NewGraph()
        options = self._api.TF_NewSessionOptions()
        meta_graph = self._api.TF_NewBuffer()
        try:
            self._session = self._checked(
                self._api.TF_LoadSessionFromSavedModel,
                options,
                None,
                os.fsencode(path),
                (_STRING * 1)(_TAG),
                1,
                graph,
                meta_graph,
            )
            content = ctypes.string_at(
                meta_graph.contents.data, meta_graph.contents.length
            )
        except tf.errors.OpError:
            self._api.TF_DeleteGraph(graph)
            raise
        finally:
            self._api.TF_DeleteSessionOptions(options)
            self._api.TF_DeleteBuffer(meta_graph)
        self._graph = graph
        self.signatures = _signatures(content)
        self.close = weakref.finalize(
            self, _close, self._api, self._session, self._graph
        )

    def __call__(
        self, inputs: Mapping[str, Any], signature: str = "serving_default"
    ) -> dict[str, np.ndarray]:
        """Returns the outputs of a signature, by name.

        Args:
            inputs: Arrays, by the names that the signature gives them.
            signature: Name of the signature.

        Raises:
            tf.errors.OpError: If the graph refuses the inputs.
        """
        wanted = self.signatures[signature]
        arrays = {
            name: np.asarray(value, wanted.inputs[name].dtype.as_numpy_dtype)
            for name, value in inputs.items()
        }
        return self.run(arrays, signature)

    def run(
        self, arrays: Mapping[str, np.ndarray], signature: str
    ) -> dict[str, np.ndarray]:
        """As a call, with the arrays as they are, whatever their types."""
        wanted = self.signatures[signature]
        sources = self._outputs([wanted.inputs[name] for name in arrays])
        targets = self._outputs(list(wanted.outputs.values()))
        given = (_VOID * len(arrays))(*[self._to_tensor(a) for a in arrays.values()])
        results = (_VOID * len(targets))()
        try:
            self._checked(
                self._api.TF_SessionRun,
                self._session,
                None,
                sources,
                given,
                len(given),
                targets,
                results,
                len(results),
                None,
                0,
                None,
            )
            values = [self._to_array(result) for result in results]
        finally:
            for tensor in (*given, *results):
                if tensor:
                    self._delete(tensor)
        return dict(zip(wanted.outputs, values, strict=True))

    def _outputs(self, tensors: list[Tensor]) -> Any:
        found = (_Output * len(tensors))()
        for place, tensor in zip(found, tensors, strict=True):
            operation, _, index = tensor.name.partition(":")
            place.operation = self._api.TF_GraphOperationByName(
                self._graph, operation.encode()
            )
            place.index = int(index)
        return found

    def _to_tensor(self, array: np.ndarray) -> Any:
        array = np.asarray(array, order="C")
        if array.dtype.kind in "OSU":
            return self._to_strings(array)
        tensor = self._api.TF_AllocateTensor(
            tf.as_dtype(array.dtype).as_datatype_enum,
            (_INT64 * array.ndim)(*array.shape),
            array.ndim,
            array.nbytes,
        )
        ctypes.memmove(self._api.TF_TensorData(tensor), array.ctypes.data, array.nbytes)
        return tensor

    def _to_strings(self, array: np.ndarray) -> Any:
        texts = [tf.compat.as_bytes(text) for text in array.ravel().tolist()]
        tensor = self._api.TF_AllocateTensor(
            tf.string.as_datatype_enum,
            (_INT64 * array.ndim)(*array.shape),
            array.ndim,
            _STRING_SIZE * len(texts),
        )
        for place, text in zip(self._strings(tensor, len(texts)), texts, strict=True):
            self._api.TF_StringInit(place)
            self._api.TF_StringCopy(place, text, len(text))
        return tensor

    def _strings(self, tensor: Any, count: int) -> list[int]:
        """Returns where the strings of a tensor are."""
        start = self._api.TF_TensorData(tensor) or 0
        return [start + _STRING_SIZE * index for index in range(count)]

    def _delete(self, tensor: Any) -> None:
        """Deletes a tensor, and long strings, which lie outside of it."""
        if self._api.TF_TensorType(tensor) == tf.string.as_datatype_enum:
            count = self._api.TF_TensorByteSize(tensor) // _STRING_SIZE
            for place in self._strings(tensor, count):
                self._api.TF_StringDealloc(place)
        self._api.TF_DeleteTensor(tensor)

    def _to_array(self, tensor: Any) -> np.ndarray:
        shape = [
            self._api.TF_Dim(tensor, axis)
            for axis in range(self._api.TF_NumDims(tensor))
        ]
        dtype = tf.as_dtype(self._api.TF_TensorType(tensor)).as_numpy_dtype
        if dtype == np.object_:
            texts = np.empty(shape, object)
            texts.flat[:] = [
                ctypes.string_at(
                    self._api.TF_StringGetDataPointer(place),
                    self._api.TF_StringGetSize(place),
                )
                for place in self._strings(tensor, texts.size)
            ]
            return texts
        content = ctypes.string_at(
            self._api.TF_TensorData(tensor), self._api.TF_TensorByteSize(tensor)
        )
        return np.frombuffer(content, dtype).reshape(shape)

    def _checked(self, function: Any, *arguments: Any) -> Any:
        """Calls a function that takes a status last, and raises what it says."""
        status = self._api.TF_NewStatus()
        try:
            result = function(*arguments, status)
            code = self._api.TF_GetCode(status)
            message = self._api.TF_Message(status).decode(errors="replace")
        finally:
            self._api.TF_DeleteStatus(status)
        if code:
            error = tf.compat.v1.errors.exception_type_from_error_code(code)
            raise error(None, None, message)
        return result


@functools.cache
def _library() -> Any:
    folder = pathlib.Path(tf.sysconfig.get_lib())
    found = sorted(folder.glob("libtensorflow_cc.*"))
    if not found:
        raise NotImplementedError(
            "This build of TensorFlow has no C++ library; expected "
            f"`libtensorflow_cc` beside it. Received: {folder}"
        )
    library = ctypes.CDLL(str(found[0]))
    for name, (returned, taken) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = returned, taken
    return library


def _close(api: Any, session: Any, graph: Any) -> None:
    status = api.TF_NewStatus()
    api.TF_CloseSession(session, status)
    api.TF_DeleteSession(session, status)
    api.TF_DeleteGraph(graph)
    api.TF_DeleteStatus(status)


def _signatures(meta_graph: bytes) -> dict[str, Signature]:
    definitions = tf.compat.v1.MetaGraphDef.FromString(meta_graph).signature_def
    return {
        # What TensorFlow adds for itself begins with underscores.
        name: Signature(_tensors(definition.inputs), _tensors(definition.outputs))
        for name, definition in sorted(definitions.items())
        if not name.startswith("__")
    }


def _tensors(infos: Any) -> dict[str, Tensor]:
    return {
        name: Tensor(
            info.name,
            tf.as_dtype(info.dtype),
            tuple(tf.TensorShape(info.tensor_shape).as_list()),
        )
        for name, info in sorted(infos.items())
    }
