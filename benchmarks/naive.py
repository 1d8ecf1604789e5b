"""Straightforward layers to compare the library with, as in a first attempt.

They are right except for inputs that are zero or extremely large or small, and save no work.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf


class Naive(keras.layers.Layer):
    """A dense layer with the local estimator and, unless zero-mean, a Normal prior."""

    has_mean = True

    def __init__(self, units: int, activation: Any = None, kl_weight: float = 0.0):
        super().__init__()
        self.units = units
        self.activation = keras.activations.get(activation)
        self.kl_weight = kl_weight
        self.seed_generator = keras.random.SeedGenerator()

    def build(self, input_shape: Any) -> None:
        shape = (input_shape[-1], self.units)
        if self.has_mean:
            self.mean = self.add_weight(name="mean", shape=shape)
        self.build_scale(shape)
        self.bias = self.add_weight(name="bias", shape=shape[1:], initializer="zeros")

    def build_scale(self, shape: tuple[int, int]) -> None:
        """Creates the variables of the scales."""
        self.scale = self.add_weight(
            name="scale", shape=shape, initializer=keras.initializers.Constant(-4.6)
        )

    def sigma(self) -> Any:
        """Returns the standard deviations."""
        return tf.nn.softplus(self.scale.value)

    def variance(self, squared_inputs: Any) -> Any:
        """Returns the variance of the output."""
        return tf.matmul(squared_inputs, tf.square(self.sigma()))

    def call(self, inputs: Any) -> Any:
        deviation = tf.sqrt(self.variance(tf.square(inputs)) + 1e-8)
        noise = keras.random.normal(tf.shape(deviation), seed=self.seed_generator)
        outputs = deviation * noise + self.bias
        if self.has_mean:
            outputs += tf.matmul(inputs, self.mean.value)
        if self.has_mean and self.kl_weight:
            self.add_loss(self.kl_weight * self.kl(np.sqrt(2 / inputs.shape[-1])))
        return self.activation(outputs)

    def kl(self, prior_scale: float) -> Any:
        """Returns the KL to a centred Normal."""
        sigma = self.sigma()
        squares = tf.square(sigma) + tf.square(self.mean.value)
        logs = tf.math.log(sigma / prior_scale)
        return tf.reduce_sum(0.5 * squares / prior_scale**2 - 0.5 - logs)


class NaiveVariance(Naive):
    """Weights of mean zero; the variances are squares of free scales."""

    has_mean = False

    def build_scale(self, shape: tuple[int, int]) -> None:
        self.scale = self.add_weight(name="scale", shape=shape)

    def sigma(self) -> Any:
        return self.scale.value


class NaiveTied(Naive):
    """Scales of rank 2, with thin products for the variance."""

    def build_scale(self, shape: tuple[int, int]) -> None:
        start = keras.initializers.RandomNormal(-2.6, 0.1)
        self.left, self.right = (
            self.add_weight(name=name, shape=(size, 2), initializer=start)
            for name, size in zip(("left", "right"), shape, strict=True)
        )

    def sigma(self) -> Any:
        return tf.matmul(
            tf.exp(self.left.value), tf.exp(self.right.value), transpose_b=True
        )

    def variance(self, squared_inputs: Any) -> Any:
        u, v = tf.exp(self.left.value), tf.exp(self.right.value)
        left = tf.stack([u[:, 0] ** 2, 2 * u[:, 0] * u[:, 1], u[:, 1] ** 2], axis=1)
        right = tf.stack([v[:, 0] ** 2, v[:, 0] * v[:, 1], v[:, 1] ** 2])
        return tf.matmul(tf.matmul(squared_inputs, left), right)
