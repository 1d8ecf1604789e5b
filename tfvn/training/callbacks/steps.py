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

from tfvn.utils import private


class Guard(keras.callbacks.Callback):
    """A callback whose `on_interrupted` is called when `fit` raises an error.

    An error in a training step, in the model or in its data, is noticed at once. In a
    `tfvn.Model`, so is any other error in `fit`. In a stock `keras.Model`, an error in
    another callback or in validation is noticed only in the next `fit`.
    """

    # Whether the training step must be traced again when the callback is removed.
    changes_trace = False

    def on_train_begin(self, logs: Any = None) -> None:
        steps = self.model.train_function
        if isinstance(steps, GuardedSteps) and steps.is_stale:
            steps.leave(in_time=False)
            steps = None
        if steps is None:
            self.model.make_train_function()
        if not isinstance(steps, GuardedSteps):
            steps = GuardedSteps(self.model)
            self.model.train_function = steps
        steps.guards.append(self)

    def on_train_end(self, logs: Any = None) -> None:
        steps = self.model.train_function
        if isinstance(steps, GuardedSteps):
            steps.remove(self)

    def around_step(self) -> contextlib.AbstractContextManager:
        """Returns the context that training steps run in."""
        return contextlib.nullcontext()

    def on_interrupted(self, in_time: bool) -> None:
        """Undoes what the callback has changed, because `on_train_end` won't be called.

        Args:
            in_time: Whether the error has just occurred, and not in an earlier `fit`.
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
        self._retraces = False

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

    def remove(self, guard: Guard) -> None:
        """Removes a guard; after the last one, restores the model's training function."""
        self.guards = [other for other in self.guards if other is not guard]
        self._retraces = self._retraces or guard.changes_trace
        if not self.guards:
            self.model.train_function = None if self._retraces else self.function

    def leave(self, in_time: bool) -> None:
        """Removes all guards and calls `on_interrupted` of each."""
        for guard in self.guards:
            self.remove(guard)
            guard.on_interrupted(in_time)


def interrupt(model: keras.Model) -> None:
    """Lets callbacks undo their changes after `fit` has raised an error.

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
            variables = private.optimized_variables(optimizer)
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
