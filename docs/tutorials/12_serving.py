"""Serving with TensorFlow Serving

An export answers with the mean and the uncertainty of an ensemble. TensorFlow Serving
loads it as it is: the server needs neither Python, nor Keras, nor this library.
"""

import json
import pathlib
import tempfile

import keras
import numpy as np
import tensorflow as tf

import tfvn

keras.utils.set_random_seed(0)
(x_train, y_train), (x_test, y_test) = tfvn.datasets.load("digits")
model = tfvn.Sequential(
    [
        keras.Input((8, 8, 1)),
        keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu"),
        tfvn.MeanFieldDense(10, activation="softmax", scale_initializer=0.1),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", kl_schedule=0.1)
model.fit(x_train, y_train, epochs=15, verbose=0)

# %%
# ## Export
#
# The export appears whole or not at all, as version 1; the next one will be version 2.
# `labels` names the classes for whoever gets the directory.

directory = pathlib.Path(tempfile.mkdtemp()) / "digits"
path = tfvn.export_ensemble(
    model, directory, num_samples=20, labels=[str(digit) for digit in range(10)]
)
for file in sorted(path.rglob("*")):
    if file.is_file():
        print(file.relative_to(directory))

# %%
# ## Ask it without a server
#
# Plain TensorFlow loads the export. `serving_default` draws fresh noise in every call.

served = tf.saved_model.load(str(path))
answer = served.signatures["serving_default"](inputs=tf.constant(x_test[:3]))
for name, value in sorted(answer.items()):
    print(name, value.shape)
print("digits", answer["mean"].numpy().argmax(-1), "labels", y_test[:3])

# %%
# ## Repeatable answers
#
# `seeded` takes two integers for each row. The same seeds give the same answer, alone or
# merged with the rows of other clients, and `ensemble_predict` gives it too.

seeds = np.array([[1, 0], [1, 1], [1, 2]], "int32")
remote = served.signatures["seeded"](
    inputs=tf.constant(x_test[:3]), seed=tf.constant(seeds)
)
local = tfvn.ensemble_predict(model, x_test[:3], num_samples=20, seed=seeds)
print("largest difference", float(np.abs(remote["mean"].numpy() - local.mean).max()))

# %%
# ## Start a server
#
# ```sh
# docker run -p 8500:8500 -p 8501:8501 \
#     -v "$PWD/saved_models/digits:/models/digits" -e MODEL_NAME=digits tensorflow/serving
# ```
#
# and send it a request. This is the body of one, shortened:

request = json.dumps({"instances": x_test[:1].tolist()})
print(request[:60], "...")

# %%
# ```sh
# curl localhost:8501/v1/models/digits:predict -d @request.json
# ```
#
# [Serving](../serving.md) has all signatures, gRPC, batching and errors.
