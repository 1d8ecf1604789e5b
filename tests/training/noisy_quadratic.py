"""A quadratic with noise on its gradients: an optimizer's path on it, and a rule's."""

import keras
import numpy as np
import tensorflow as tf

STEPS = 150
CURVATURE = ([0.5, 1.5, 3.0], [[2.0, 0.7], [1.0, 4.0]])
OPTIMUM = ([1.0, -2.0, 3.0], [[-1.5, 2.5], [4.0, -3.0]])
NOISE = [
    np.random.default_rng(index).normal(size=(STEPS, *np.shape(optimum)))
    for index, optimum in enumerate(OPTIMUM)
]


def simulate(step_of):
    """Runs a rule from the gradients so far to a step, in float64."""
    x = np.zeros(7)
    curvature, optimum = (
        np.concatenate([np.ravel(part) for part in parts])
        for parts in (CURVATURE, OPTIMUM)
    )
    noise = np.concatenate([part.reshape(STEPS, -1) for part in NOISE], axis=1)
    gradients, path = [], []
    for t in range(STEPS):
        gradients.append(curvature * (x - optimum) + noise[t])
        x = x + step_of(gradients)
        path.append(x)
    return np.array(path)


def train(optimizer, mode, rounds=1):
    """Returns the path of an optimizer on the problem of `simulate`."""
    variables = [keras.Variable(tf.zeros(np.shape(o))) for o in OPTIMUM]
    optimizer.build(variables)

    def step(*noise):
        gradients = [
            tf.constant(c) * (x - tf.constant(o)) + n
            for c, x, o, n in zip(CURVATURE, variables, OPTIMUM, noise, strict=True)
        ]
        optimizer.apply(gradients, variables)

    if mode != "eager":
        step = tf.function(step, jit_compile=mode == "jit")
    path = []
    for noise in list(zip(*NOISE, strict=True)) * rounds:
        step(*(tf.constant(part, tf.float32) for part in noise))
        path.append(np.concatenate([np.ravel(x.numpy()) for x in variables]))
    return np.array(path)
