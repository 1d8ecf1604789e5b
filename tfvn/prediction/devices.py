"""The devices that share the work of a prediction."""

import collections
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import keras
import tensorflow as tf

_MIRRORED = (tf.distribute.MirroredStrategy, tf.distribute.MultiWorkerMirroredStrategy)


def devices_of(model: keras.Model) -> list[str | None]:
    """Returns the devices of this process that have a copy of a model's variables.

    Args:
        model: A model.

    Returns:
        Names of devices, or `[None]`, whatever device TensorFlow chooses, unless there
        are several.
    """
    strategy = model.distribute_strategy
    if not isinstance(strategy, _MIRRORED):
        return [None]
    devices = list(strategy.extended.worker_devices)
    return devices if len(devices) > 1 else [None]


def in_parallel(tasks: Iterable[Callable[[], Any]], count: int) -> Iterator[Any]:
    """Yields the results of tasks in their order, while up to `count` of them run.

    The next task is taken from `tasks` when the oldest of `count` tasks has ended, so that
    each of `count` devices has one if the tasks take turns.

    Args:
        tasks: Functions without arguments. With `count=1` each runs when its result is
            asked for.
        count: How many may run at a time.
    """
    if count == 1:
        for task in tasks:
            yield task()
        return
    with ThreadPoolExecutor(count) as pool:
        running: collections.deque[Future] = collections.deque()
        for task in tasks:
            running.append(pool.submit(task))
            if len(running) == count:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
