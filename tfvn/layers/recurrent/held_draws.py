"""Draws that a cell makes once and keeps for a sequence, or for one call of a model."""

import threading
import weakref
from typing import Any

import keras
import tensorflow as tf

from tfvn.utils import private, private_training

Tensor = Any


class HeldInCall:
    """An attribute of a layer that lasts only during one call of the outermost layer.

    A tensor in a plain attribute would leak into the next call if a call raises, and from
    one replica into another, because a strategy runs replicas in threads. This descriptor
    stores the value with the call, which every thread has for itself, and the value
    disappears with the call. It is visible in the graph that made it, and in graphs
    inside that one.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"{name}_by_call"

    def __get__(self, layer: Any, owner: type | None = None) -> Any:
        if layer is None:
            return self
        value, graph = self._values(layer).get(_current_call(), (None, None))
        return value if graph in _graphs() else None

    def __set__(self, layer: Any, value: Any) -> None:
        if value is None:
            self._values(layer).pop(_current_call(), None)
        else:
            self._values(layer)[_current_call()] = (value, _graphs()[0])

    def _values(self, layer: Any) -> weakref.WeakKeyDictionary:
        # Not with `setattr`, because Keras and TensorFlow would track the value.
        return vars(layer).setdefault(self._name, weakref.WeakKeyDictionary())


class HoldsDraws(keras.Layer):
    """A cell that draws once for a sequence, and keeps the draw.

    `keras.layers.RNN` asks a cell for dropout masks before its loop and resets them after
    it; the cell keeps the draw in between. If no `RNN` does so, because another cell or
    layer calls this cell, it keeps the draw until the call of the outermost layer ends.
    """

    # Keras's own code for the masks is unchanged, and stores them here.
    _dropout_mask = HeldInCall()
    _recurrent_dropout_mask = HeldInCall()
    _held = HeldInCall()

    def draw(self, inputs: Tensor, training: bool | None) -> Any:
        """Returns the draw for a sequence, and adds the KL to the loss."""
        raise NotImplementedError

    def hold_for_sequence(self, inputs: Tensor) -> None:
        """Draws for a sequence before its first step, unless there is a draw already."""
        if self._held is not None:
            return
        call = _current_call()
        if isinstance(call, threading.Thread):
            raise RuntimeError(
                f"`{type(self).__name__}` can draw its weights and noise only while a "
                "layer is being called; call the layer that contains this cell as "
                "`layer(inputs)`, not `layer.call(inputs)`."
            )
        self._held = self.draw(inputs, call.get_value("training"))

    def call(self, inputs: Tensor, states: Any, training: bool = False) -> Any:
        call = _current_call()
        if self._held is None:
            if getattr(call, "entry_layer", self) is not self and _is_repeated(states):
                raise RuntimeError(
                    f"`{type(self).__name__}` must use the same weights in all steps "
                    "of a sequence, but this layer would make it draw new weights in "
                    "every step; pass the cell to `keras.layers.RNN`, alone or in a "
                    "list of cells."
                )
            self._held = self.draw(inputs, training)
        try:
            return self.step(inputs, states, training)
        finally:
            # What no call of a layer lets go of.
            if isinstance(call, threading.Thread):
                self._held = self._dropout_mask = self._recurrent_dropout_mask = None

    def step(self, inputs: Tensor, states: Any, training: bool) -> Any:
        """Returns the output and the states of a step with what is held: Keras's own."""
        return super().call(inputs, states, training=training)


def _current_call() -> Any:
    """Returns the current call of the outermost layer, or the thread if there is none."""
    call = private.current_call()
    return threading.current_thread() if call is None else call


def _graphs() -> list[Any]:
    """Returns the graph that is being traced and the graphs around it; `None` is eager."""
    if tf.executing_eagerly():
        return [None]
    graphs = [tf.compat.v1.get_default_graph()]
    while getattr(graphs[-1], "outer_graph", None) is not None:
        graphs.append(graphs[-1].outer_graph)
    return graphs


def _is_repeated(states: Any) -> bool:
    """Whether the states come from the step before, in a loop of a graph."""
    graph = _graphs()[0]
    if graph not in private_training.loops():
        return False
    variables = {id(variable) for variable in graph.inputs}
    return any(id(state) in variables for state in tf.nest.flatten(states))
