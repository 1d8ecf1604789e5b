import hashlib
import os
import socket
import sys
import threading
import time
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfvn import datasets
from tfvn.utils import data_places

TFDS_DATA_DIR = os.environ.get("TFDS_DATA_DIR")
TFVN_DATA_DIR = os.environ.get("TFVN_DATA_DIR")
needs_tfds = pytest.mark.skipif(
    not TFDS_DATA_DIR, reason="TFDS_DATA_DIR is unset: no prepared data sets"
)
needs_files = pytest.mark.skipif(
    not TFVN_DATA_DIR, reason="TFVN_DATA_DIR is unset: no data files"
)


class TestDigits:
    def test_the_file_is_the_one_described(self):
        path = Path(datasets.__file__).parent / "data" / "digits.npz"
        content = path.read_bytes()
        assert len(content) < 60_000
        assert hashlib.sha256(content).hexdigest() == (
            "6a49c7716d4a984408cf0f99c625afc314744abb8bb38801de682278bbd6eb75"
        )

    def test_default_is_both_splits_of_digits(self):
        (x_train, y_train), (x_test, y_test) = datasets.load()
        assert x_train.shape == (1437, 8, 8, 1)
        assert x_test.shape == (360, 8, 8, 1)
        assert y_train.shape == (1437,)
        assert y_test.shape == (360,)

    def test_has_named_splits(self):
        digits = datasets.load("digits")
        np.testing.assert_array_equal(digits.test[0], digits[1][0])

    @pytest.mark.parametrize("split", ["train", "test"])
    def test_types_and_range(self, split):
        x, y = datasets.load("digits", split=split)
        assert x.dtype == np.float32
        assert y.dtype == np.int64
        assert x.min() == 0.0
        assert x.max() == 1.0
        # Sixteenths: scaled by the brightest value there can be, not by a statistic.
        np.testing.assert_array_equal(x * 16, np.round(x * 16))

    @pytest.mark.parametrize("split", ["train", "test"])
    def test_one_split_is_that_of_both(self, split):
        x, y = datasets.load("digits", split=split)
        expected_x, expected_y = getattr(datasets.load("digits"), split)
        np.testing.assert_array_equal(x, expected_x)
        np.testing.assert_array_equal(y, expected_y)

    def test_split_is_stratified(self):
        (_, y_train), (_, y_test) = datasets.load("digits")
        counts = np.bincount(y_train) + np.bincount(y_test)
        assert len(counts) == 10
        expected = counts * len(y_test) / counts.sum()
        assert np.abs(np.bincount(y_test) - expected).max() <= 1

    def test_is_shuffled(self):
        _, y = datasets.load("digits", split="train")
        # Each tenth of a shuffled set holds every digit.
        assert all(len(np.unique(part)) == 10 for part in np.array_split(y, 10))

    def test_no_image_occurs_twice(self):
        (x_train, _), (x_test, _) = datasets.load("digits")
        images = np.concatenate([x_train, x_test]).reshape(1797, 64)
        assert len(np.unique(images, axis=0)) == 1797

    def test_labels_belong_to_the_images(self):
        (x_train, y_train), (x_test, y_test) = datasets.load("digits")
        centroids = np.stack([x_train[y_train == d].mean(axis=0) for d in range(10)])
        distances = ((x_test[:, None] - centroids) ** 2).sum(axis=(2, 3, 4))
        assert (distances.argmin(axis=1) == y_test).mean() > 0.85

    def test_needs_no_data_directory(self, monkeypatch):
        monkeypatch.delenv("TFDS_DATA_DIR", raising=False)
        monkeypatch.delenv("TFVN_DATA_DIR", raising=False)
        monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
        assert len(datasets.load("digits")) == 2


class TestErrors:
    def test_unknown_name_lists_the_known_ones(self):
        with pytest.raises(ValueError, match="`name` must be one of") as error:
            datasets.load("svhn")
        for name in ("digits", "mnist", "cifar10", "fashion_mnist", "imdb"):
            assert repr(name) in str(error.value)
        assert str(error.value).endswith("Received: name='svhn'")

    def test_unknown_split(self):
        with pytest.raises(ValueError, match="Received: split='valid'"):
            datasets.load("digits", split="valid")

    def test_num_words_is_for_imdb(self):
        with pytest.raises(ValueError, match=r"'imdb' only.*num_words=10"):
            datasets.load("digits", num_words=10)

    def test_num_words_is_positive(self):
        with pytest.raises(ValueError, match="Received: num_words=0"):
            datasets.load("imdb", num_words=0)

    @pytest.mark.parametrize("name", ["mnist", "cifar10", "fashion_mnist"])
    def test_missing_tfds_says_what_to_install(self, monkeypatch, name):
        monkeypatch.delenv("TFVN_DATA_DIR", raising=False)
        monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
        with pytest.raises(ImportError, match=r'pip install "tfvn\[datasets\]"'):
            datasets.load(name)


class TestFilesInDataDirectory:
    """With small files of the documented layout."""

    @pytest.fixture
    def directory(self, tmp_path, monkeypatch):
        monkeypatch.setenv("TFVN_DATA_DIR", str(tmp_path))
        return tmp_path

    @pytest.fixture
    def fashion(self, directory):
        images = np.arange(2 * 28 * 28, dtype=np.uint8).reshape(2, 28, 28)
        np.savez(
            directory / "fashion_mnist_test.npz",
            images=images,
            labels=np.array([3, 7], np.uint8),
        )
        return images

    @pytest.fixture
    def imdb(self, directory):
        # Review i of a split is i + 1 words long; its label is its index.
        lengths = np.arange(1, 7)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        arrays = {}
        for split, first in ("train", 1), ("test", 2):
            tokens = np.arange(first, first + offsets[-1], dtype=np.int32)
            arrays[f"{split}_tokens"] = np.minimum(tokens, 21)
            arrays[f"{split}_offsets"] = offsets
            arrays[f"{split}_labels"] = np.arange(6, dtype=np.uint8)
        np.savez(directory / "imdb.npz", **arrays)

    def test_fashion_test_split(self, fashion):
        x, y = datasets.load("fashion_mnist", split="test")
        assert x.dtype == np.float32
        np.testing.assert_allclose(x, fashion[..., None] / 255, rtol=1e-6)
        np.testing.assert_array_equal(y, [3, 7])

    @pytest.mark.parametrize("split", ["train", None])
    def test_fashion_has_no_training_images(self, fashion, split):
        with pytest.raises(ValueError, match="pass split='test', or unset"):
            datasets.load("fashion_mnist", split=split)

    def test_imdb_is_in_the_form_of_keras(self, imdb):
        x, y = datasets.load("imdb", split="train", num_words=10)
        order = np.arange(6)
        np.random.RandomState(113).shuffle(order)
        np.testing.assert_array_equal(y, order)
        assert x.dtype == object
        review = dict(zip(y, x, strict=True))
        # Ranks 2, 3 and 4, 5, 6 plus 3, after the start id; 10 is not kept below.
        assert review[1].tolist() == [1, 5, 6]
        assert review[2].tolist() == [1, 7, 8, 9]
        assert review[3].tolist() == [1, 2, 2, 2, 2]

    def test_imdb_without_limit_leaves_out_the_largest_id_as_keras_does(self, imdb):
        x, y = datasets.load("imdb", split="train")
        longest = dict(zip(y, x, strict=True))[5]
        assert longest.tolist() == [1, 19, 20, 21, 22, 23, 2]

    def test_imdb_split_alone_is_that_of_both(self, imdb):
        x, y = datasets.load("imdb", split="test")
        both = datasets.load("imdb")
        np.testing.assert_array_equal(y, both.test[1])
        for review, expected in zip(x, both.test[0], strict=True):
            np.testing.assert_array_equal(review, expected)

    @pytest.mark.parametrize("variable", ["set", "empty"])
    def test_imdb_comes_from_keras_where_there_is_no_file(
        self, directory, monkeypatch, variable
    ):
        if variable == "empty":
            monkeypatch.setenv("TFVN_DATA_DIR", "")
        asked = []

        def load_data(num_words):
            asked.append(num_words)
            reviews = np.array([[1, 4], [1, 5, 6]], dtype=object)
            return (reviews, np.array([0, 1])), (reviews[::-1], np.array([1, 0]))

        monkeypatch.setattr(keras.datasets.imdb, "load_data", load_data)
        monkeypatch.setattr(data_places, "can_connect", lambda host: True)
        x, y = datasets.load("imdb", split="test", num_words=99)
        assert asked == [99]
        assert [review.tolist() for review in x] == [[1, 5, 6], [1, 4]]
        assert x[0].dtype == np.int32
        np.testing.assert_array_equal(y, [1, 0])


class TestDownload:
    @pytest.fixture(autouse=True)
    def _splits(self):
        self.splits = []

    @pytest.fixture
    def asked(self, monkeypatch):
        """What TensorFlow Datasets was asked for, instead of a download."""
        tfds = pytest.importorskip("tensorflow_datasets")
        calls, splits = [], self.splits

        def load(name, split, data_dir, batch_size, as_supervised):
            calls.append((name, data_dir))
            splits.append(split)
            assert (batch_size, as_supervised) == (-1, True)
            values = [{"train": 255, "test": 51}[part.split("[")[0]] for part in split]
            images = [np.full((10, 2, 2, 1), value, np.uint8) for value in values]
            return [(tf.constant(x), tf.constant(np.arange(10))) for x in images]

        monkeypatch.setattr(tfds, "load", load)
        monkeypatch.setattr(data_places, "can_connect", lambda host: True)
        return calls

    def test_both_splits(self, asked):
        (x_train, _), (x_test, y_test) = datasets.load("mnist")
        assert x_train.max() == 1.0
        assert x_test.max() == pytest.approx(0.2)
        np.testing.assert_array_equal(y_test, np.arange(10))

    def test_a_limit_reads_no_more(self, asked):
        (_, y_train), (_, y_test) = datasets.load("mnist", limit=4)
        assert self.splits == [["train[:4]", "test[:4]"]]
        assert len(y_train) == len(y_test) == 4

    @pytest.mark.parametrize(
        ("value", "expected"), [("somewhere", "somewhere"), ("", None), (None, None)]
    )
    def test_honours_the_variable_as_it_is_now(
        self, asked, monkeypatch, value, expected
    ):
        if value is None:
            monkeypatch.delenv("TFDS_DATA_DIR", raising=False)
        else:
            monkeypatch.setenv("TFDS_DATA_DIR", value)
        datasets.load("cifar10", split="test")
        assert asked == [("cifar10", expected)]


class TestNotThere:
    """Data that are nowhere, on a machine without a connection."""

    @pytest.fixture(autouse=True)
    def _offline(self, monkeypatch, tmp_path):
        monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
        monkeypatch.setenv("TFVN_DATA_DIR", str(tmp_path))
        monkeypatch.setenv("KERAS_HOME", str(tmp_path))
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.delenv(name, raising=False)

        def refuse(*_, **__):
            raise OSError("no network")

        monkeypatch.setattr(socket, "create_connection", refuse)

    @pytest.mark.parametrize(
        ("name", "variable"),
        [
            ("mnist", "TFDS_DATA_DIR"),
            ("cifar10", "TFDS_DATA_DIR"),
            ("fashion_mnist", "TFDS_DATA_DIR"),
            ("imdb", "TFVN_DATA_DIR"),
        ],
    )
    def test_says_so_at_once(self, name, variable, recwarn):
        if name != "imdb":
            pytest.importorskip("tensorflow_datasets")
        start = time.perf_counter()
        with pytest.raises(ConnectionError, match=f"set {variable} to a dir") as error:
            datasets.load(name)
        # Importing TensorFlow Datasets takes seconds, retries would take minutes.
        assert time.perf_counter() - start < 30
        assert f"tfvn.datasets.load({name!r})" in str(error.value)
        assert "\n" not in str(error.value)
        assert not recwarn.list

    def test_a_lookup_that_hangs_is_given_up(self, monkeypatch):
        never = threading.Event()

        def hang(*_):
            never.wait(20)
            raise OSError("no such host")

        monkeypatch.setattr(socket, "create_connection", hang)
        start = time.perf_counter()
        assert not data_places.can_connect("example.org", timeout=0.1)
        assert time.perf_counter() - start < 5
        never.set()

    def test_a_proxy_is_asked_instead(self, monkeypatch):
        asked = []

        def connect(address, timeout):
            asked.append(address)
            return socket.socket()

        monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.setattr(socket, "create_connection", connect)
        assert data_places.can_connect("storage.googleapis.com")
        assert asked == [("proxy.example", 3128)]

    def test_files_that_were_downloaded_before_need_no_connection(self, tmp_path):
        (tmp_path / "downloads").mkdir()
        (tmp_path / "downloads" / "file.gz").touch()
        # TensorFlow Datasets writes one such file for each download.
        note = tmp_path / "downloads" / "file.gz.INFO"
        note.write_text('{"dataset_names": ["mnist"], "original_fname": "file.gz"}')
        data_places.require("mnist")
        with pytest.raises(ConnectionError, match="The data set 'cifar10' is not"):
            data_places.require("cifar10")

    def test_prepared_data_need_no_connection(self, tmp_path):
        folder = tmp_path / "mnist" / "3.0.1"
        folder.mkdir(parents=True)
        assert not data_places.is_there("mnist")
        (folder / "dataset_info.json").touch()
        assert data_places.is_there("mnist")
        data_places.require("mnist")
        assert data_places.is_there("digits")


@needs_tfds
class TestPreparedDataSets:
    def test_mnist(self):
        x, y = datasets.load("mnist", split="test")
        assert x.shape == (10_000, 28, 28, 1)
        assert x.dtype == np.float32
        assert (x.min(), x.max()) == (0.0, 1.0)
        assert np.bincount(y).tolist() == [
            *(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)
        ]

    def test_cifar10_in_a_fixed_order(self):
        x, y = datasets.load("cifar10", split="test")
        assert x.shape == (10_000, 32, 32, 3)
        assert (x.min(), x.max()) == (0.0, 1.0)
        assert np.bincount(y).tolist() == [1000] * 10
        again_x, again_y = datasets.load("cifar10", split="test")
        np.testing.assert_array_equal(y, again_y)
        np.testing.assert_array_equal(x, again_x)


@needs_files
class TestDataFiles:
    def test_imdb_training_reviews(self):
        x, y = datasets.load("imdb", split="train")
        assert len(x) == 25_000
        assert np.mean([len(review) for review in x]) == pytest.approx(238.71364)
        assert y.dtype == np.int64
        assert np.bincount(y).tolist() == [12_500, 12_500]
        # The labels and the start of the first review are those of Keras.
        assert y[:5].tolist() == [1, 0, 0, 1, 0]
        assert x[0][:8].tolist() == [1, 14, 22, 16, 43, 530, 973, 1622]

    def test_imdb_words_left_out(self):
        x, _ = datasets.load("imdb", split="test", num_words=20_000)
        assert np.mean([len(review) for review in x]) == pytest.approx(230.8042)
        assert max(review.max() for review in x) == 19_999
        assert min(review.min() for review in x) == 1

    def test_fashion_mnist(self):
        x, y = datasets.load("fashion_mnist", split="test")
        assert x.shape == (10_000, 28, 28, 1)
        assert (x.min(), x.max()) == (0.0, 1.0)
        assert np.bincount(y).tolist() == [1000] * 10
