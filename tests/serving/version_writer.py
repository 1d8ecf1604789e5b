"""A process that writes versions until it is killed."""

import keras

import tfvn


def small_model():
    layer = tfvn.VarianceDense(2, prior=None)
    return keras.Sequential([keras.Input((3,)), layer])


def write_versions(base, count):
    model = small_model()
    for _ in range(count):
        tfvn.export_ensemble(model, base, 2, outputs="regression")
