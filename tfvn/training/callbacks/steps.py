"""Callbacks that change how a model trains, and must undo the change even after errors.

Keras calls `on_train_end` of a callback when training has ended, but not when `fit` raises an
error. Every step of `fit` calls `model.train_function`, so a wrapper around that function
notices errors and lets the callbacks undo their changes.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tfvn.utils import private_training


class Guard(keras.callbacks.Callback):
    """A callback that undoes its changes when training ends, and when `fit` raises an error.

    An error in a training step, in the model or in its data, is noticed at once. In a
    `tfvn.Model`, so is any other error in `fit`. In a stock `keras.Model`, an error in
    another callback or in validation is noticed only in the next `fit`.
    """

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        steps = model.train_function
        if isinstance(steps, GuardedSteps) and steps.is_stale:
            steps.leave(in_time=False)

    def on_train_begin(self, logs: Any = None) -> None:
        steps = self.model.train_function
        if not isinstance(steps, GuardedSteps):
            steps = GuardedSteps(self.model)
            self.model.train_function = steps
        steps.guards.append(self)

    def on_train_end(self, logs: Any = None) -> None:
        undo_changes(self.model)

    def around_step(self) -> contextlib.AbstractContextManager:
        """Returns the context that training steps run in."""
        return contextlib.nullcontext()

    def undo(self, in_time: bool) -> None:
        """Undoes what the callback has changed.

        Args:
            in_time: Whether training has just ended, and not in an earlier `fit`.
        """


class GuardedSteps:
    """Replaces the training function of a model while it has `Guard` callbacks.

    Args:
        model: A model that has a training function.
    """

    def __init__(self, model: keras.Model):
        self.model = model
        self.function = model.train_function
        self.guards: list[Guard] = []
        self._history = getattr(model, "history", None)

    @property
    def is_stale(self) -> bool:
        """Whether the `fit` that created this object is over.

        Each `fit` creates a new `model.history`.
        """
        return getattr(self.model, "history", None) is not self._history

    def __call__(self, iterator: Any) -> Any:
        if self.is_stale:
            self.leave(in_time=False)
            self.model.make_train_function()
            return self.model.train_function(iterator)
        try:
            with contextlib.ExitStack() as stack:
                for guard in self.guards:
                    stack.enter_context(guard.around_step())
                return self.function(iterator)
        except (StopIteration, tf.errors.OutOfRangeError):
            raise  # the end of the data
        except BaseException:
            self.leave(in_time=True)
            raise

    def leave(self, in_time: bool) -> None:
        """Restores the model's training function, and lets all guards undo their changes."""
        self.model.train_function = self.function
        for guard in self.guards:
            guard.undo(in_time)


def undo_changes(model: keras.Model) -> None:
    """Lets callbacks undo their changes, after training has ended or `fit` has failed.

    Args:
        model: The model that was being trained.
    """
    steps = model.train_function
    if isinstance(steps, GuardedSteps):
        steps.leave(in_time=True)


@contextlib.contextmanager
def intercepted(
    optimizer: keras.optimizers.Optimizer,
    receive: Callable[[list[Any], list[Any]], None],
    applies: bool = True,
) -> Iterator[None]:
    """Passes all gradients that an optimizer gets within the context to a function.

    Args:
        optimizer: The optimizer. This works for `apply` and for `apply_gradients`.
        receive: A function that is called with the gradients and their variables.
        applies: Whether the optimizer then updates the variables.
    """
    apply = optimizer.apply
    is_nested = "apply" in vars(optimizer)

    def receive_and_apply(grads: Any, trainable_variables: Any = None) -> Any:
        variables = trainable_variables
        if variables is None:
            variables = private_training.optimized_variables(optimizer)
        receive(list(grads), list(variables))
        return apply(grads, trainable_variables) if applies else None

    optimizer.apply = receive_and_apply
    try:
        yield
    finally:
        if is_nested:
            optimizer.apply = apply
        else:
            del optimizer.apply
