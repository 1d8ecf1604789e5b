"""Callbacks that change how a model trains, and must undo it whatever happens.

Keras tells callbacks that training has ended, but not that `fit` has raised. All steps
of `fit` go through `model.train_function`, so what has to be undone is watched from there.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tfvn.utils import private


class Guard(keras.callbacks.Callback):
    """A callback that is told when `fit` raises.

    A step that raises, in the model or in its data, is noticed at once; so is anything
    else in the `fit` of a `tfvn.Model`. In a `keras.Model` an error in another callback
    or in validation is noticed in the next `fit`.
    """

    # Whether what was traced with the callback is to be traced again without it.
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
            in_time: Whether `fit` has raised just now, and not in the past.
        """


class GuardedSteps:
    """The training function of a model, for as long as a `Guard` watches it.

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
        """Whether the `fit` that this is for is over: each has a history of its own."""
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
        """Goes on without a guard; without any, leaves the model as it was."""
        self.guards = [other for other in self.guards if other is not guard]
        self._retraces = self._retraces or guard.changes_trace
        if not self.guards:
            self.model.train_function = None if self._retraces else self.function

    def leave(self, in_time: bool) -> None:
        """Tells all guards that `fit` has raised, and leaves the model as it was."""
        for guard in self.guards:
            self.remove(guard)
            guard.on_interrupted(in_time)


def interrupt(model: keras.Model) -> None:
    """Undoes what callbacks have changed, after `fit` has raised.

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
    """Lets a function see all gradients that an optimizer is given, within the context.

    Args:
        optimizer: The optimizer. Both `apply` and `apply_gradients` are seen.
        receive: Is called with the gradients and their variables.
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
