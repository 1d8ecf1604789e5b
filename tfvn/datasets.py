"""Data sets as NumPy arrays: `tfvn.datasets.load`."""

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from tfvn.utils import data_places
from tfvn.utils.validation import check_choice, check_count

Pair = tuple[np.ndarray, np.ndarray]

__all__ = ["Dataset", "load", "names"]

_SPLITS = ("train", "test")
_DIGITS_FILE = Path(__file__).parent / "data" / "digits.npz"


class Dataset(NamedTuple):
    """The two splits of a data set, each a pair `(x, y)` of NumPy arrays."""

    train: Pair
    test: Pair


def load(
    name: str = "digits",
    split: str | None = None,
    *,
    num_words: int | None = None,
    limit: int | None = None,
) -> Dataset | Pair:
    """Loads a data set as NumPy arrays.

    | name | train / test | `x` |
    | --- | --- | --- |
    | `"digits"` | 1,437 / 360 | images (8, 8, 1), inside the package |
    | `"mnist"` | 60,000 / 10,000 | images (28, 28, 1) |
    | `"fashion_mnist"` | 60,000 / 10,000 | images (28, 28, 1) |
    | `"cifar10"` | 50,000 / 10,000 | images (32, 32, 3) |
    | `"imdb"` | 25,000 / 25,000 | reviews, sequences of word ids |

    Images are float32 in [0, 1]; `y` is int64. The order of the examples is the same
    on every call. The reviews are an object array of int32 arrays with the ids and the
    order of `keras.datasets.imdb.load_data`: 1 starts a review, 2 replaces a word that is
    left out, and 0 is not used, so that you can pad with it.

    `"digits"` needs neither a network nor a data directory. The other images come from
    TensorFlow Datasets (`pip install "tfvn[datasets]"`), which reads the directory in
    the environment variable `TFDS_DATA_DIR` and downloads what is not there; the
    reviews come from Keras. If the environment variable `TFVN_DATA_DIR` names a directory
    that contains `imdb.npz` or `fashion_mnist_test.npz`, these files are read instead. If
    data are not there and cannot be downloaded, an error says so within seconds.

    Args:
        name: The name of the data set.
        split: `"train"` or `"test"` for one split, `None` for both.
        num_words: For `"imdb"` only: ids from this number on become 2. `None` keeps
            the same ids as Keras.
        limit: Load only the first so many examples of each split, which is faster.

    Returns:
        A `Dataset`, which unpacks as `(x_train, y_train), (x_test, y_test)`, or the
        pair `(x, y)` of the one `split`.

    Example:

    >>> (x_train, y_train), (x_test, y_test) = tfvn.datasets.load("digits")
    >>> x_train.shape, x_test.shape
    ((1437, 8, 8, 1), (360, 8, 8, 1))
    >>> x, y = tfvn.datasets.load("digits", split="test")
    >>> x.dtype, y.dtype
    (dtype('float32'), dtype('int64'))
    """
    check_choice("name", name, _LOADERS)
    check_choice("split", split, (None, *_SPLITS))
    check_count("num_words", num_words, or_none=True)
    if num_words is not None and name != "imdb":
        raise ValueError(
            "`num_words` applies to 'imdb' only. "
            f"Received: name={name!r}, num_words={num_words!r}"
        )
    load_splits = _LOADERS[name]
    check_count("limit", limit, or_none=True)
    options: dict[str, Any] = {} if num_words is None else {"num_words": num_words}
    if limit is not None and isinstance(load_splits, functools.partial):
        options["limit"] = limit  # read no more than that
    chosen = _SPLITS if split is None else (split,)
    pairs = [(x[:limit], y[:limit]) for x, y in load_splits(chosen, **options)]
    return Dataset(*pairs) if split is None else pairs[0]


def names() -> list[str]:
    """Returns the names that `load` knows.

    Example:

    >>> import tfvn
    >>> tfvn.datasets.names()
    ['digits', 'mnist', 'cifar10', 'fashion_mnist', 'imdb']
    """
    return list(_LOADERS)


def _images(pixels: np.ndarray, labels: np.ndarray, brightest: int) -> Pair:
    """Scales pixels to [0, 1] and gives greyscale images their channel axis."""
    x = pixels.astype(np.float32) / np.float32(brightest)
    return x if x.ndim == 4 else x[..., np.newaxis], labels.astype(np.int64)


def _load_digits(splits: tuple[str, ...]) -> list[Pair]:
    with np.load(_DIGITS_FILE) as arrays:
        return [
            _images(arrays[f"x_{split}"], arrays[f"y_{split}"], brightest=16)
            for split in splits
        ]


def _load_tfds(
    name: str, splits: tuple[str, ...], limit: int | None = None
) -> list[Pair]:
    try:
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise ImportError(
            "This data set is read through TensorFlow Datasets, which could not be "
            f'imported ({error}): run `pip install "tfvn[datasets]"`.'
        ) from error
    data_places.require(name)
    pairs = tfds.load(
        name,
        split=[s if limit is None else f"{s}[:{limit}]" for s in splits],
        # tfds reads the variable only when it is imported. Passing it here makes later
        # changes work too.
        data_dir=os.environ.get("TFDS_DATA_DIR") or None,
        batch_size=-1,
        as_supervised=True,
    )
    return [_images(x, y, brightest=255) for x, y in tfds.as_numpy(pairs)]


def _load_fashion_mnist(splits: tuple[str, ...]) -> list[Pair]:
    path = data_places.own_file("fashion_mnist")
    if path is None:
        return _load_tfds("fashion_mnist", splits)
    if "train" in splits:
        raise ValueError(
            "`TFVN_DATA_DIR` holds only the test images of 'fashion_mnist': pass "
            "split='test', or unset the variable to download both splits. "
            f"Received: TFVN_DATA_DIR={os.environ['TFVN_DATA_DIR']!r}"
        )
    with np.load(path) as arrays:
        return [_images(arrays["images"], arrays["labels"], brightest=255)]


def _load_imdb(splits: tuple[str, ...], num_words: int | None = None) -> list[Pair]:
    path = data_places.own_file("imdb")
    if path is not None:
        return _read_imdb(path, splits, num_words)
    data_places.require("imdb")
    both = dict(
        zip(_SPLITS, keras.datasets.imdb.load_data(num_words=num_words), strict=True)
    )
    return [(_ragged(both[s][0]), both[s][1].astype(np.int64)) for s in splits]


def _read_imdb(
    path: Path, splits: tuple[str, ...], num_words: int | None
) -> list[Pair]:
    """Reads word ranks and returns the same data as Keras does from its own file."""
    rng = np.random.RandomState(113)  # The default seed of Keras's `load_data`.
    pairs = {}
    with np.load(path) as arrays:
        if num_words is None:
            # As in Keras, which leaves out the largest id.
            num_words = int(arrays["train_tokens"].max()) + 3
        for split in _SPLITS:
            # One generator shuffles both splits, so the training one always goes first.
            labels = arrays[f"{split}_labels"].astype(np.int64)
            order = np.arange(len(labels))
            rng.shuffle(order)
            if split in splits:
                ids = arrays[f"{split}_tokens"] + np.int32(3)
                ids = np.where(ids < num_words, ids, np.int32(2))
                reviews = _reviews(ids, arrays[f"{split}_offsets"], order)
                pairs[split] = (_ragged(reviews), labels[order])
    return [pairs[split] for split in splits]


def _reviews(
    ids: np.ndarray, offsets: np.ndarray, order: np.ndarray
) -> Iterator[np.ndarray]:
    start = np.ones(1, np.int32)
    for i in order:
        yield np.concatenate([start, ids[offsets[i] : offsets[i + 1]]])


def _ragged(sequences) -> np.ndarray:
    return np.fromiter((np.asarray(s, np.int32) for s in sequences), dtype=object)


_LOADERS: dict[str, Callable[..., list[Pair]]] = {
    "digits": _load_digits,
    "mnist": functools.partial(_load_tfds, "mnist"),
    "cifar10": functools.partial(_load_tfds, "cifar10"),
    "fashion_mnist": _load_fashion_mnist,
    "imdb": _load_imdb,
}
