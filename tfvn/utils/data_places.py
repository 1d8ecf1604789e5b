"""Where the files of data sets are, and what to do if they are not there.

This module uses nothing but the standard library, because `tfvn reproduce` reads it before
TensorFlow is imported.
"""

import os
import pathlib
import socket
import threading
import urllib.parse
import urllib.request

# The hosts from which TensorFlow Datasets and Keras download.
HOSTS = {
    "mnist": "storage.googleapis.com",
    "cifar10": "www.cs.toronto.edu",
    "fashion_mnist": "fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    "imdb": "storage.googleapis.com",
}

# Files in `TFVN_DATA_DIR` that replace a download.
OWN_FILES = {"imdb": "imdb.npz", "fashion_mnist": "fashion_mnist_test.npz"}

# How many seconds a host has to answer.
_PATIENCE = 4.0


def own_file(name: str) -> pathlib.Path | None:
    """Returns the file of a data set in `TFVN_DATA_DIR`, or `None` if it is not there.

    Args:
        name: The name of the data set.
    """
    directory = os.environ.get("TFVN_DATA_DIR")
    if not directory or name not in OWN_FILES:
        return None
    path = pathlib.Path(directory) / OWN_FILES[name]
    return path if path.is_file() else None


def is_there(name: str) -> bool:
    """Whether a data set can be loaded without a download.

    Args:
        name: The name of the data set; `"digits"` is inside the package.
    """
    if name == "digits" or own_file(name) is not None:
        return True
    if name == "imdb":
        home = os.environ.get("KERAS_HOME") or pathlib.Path.home() / ".keras"
        return (pathlib.Path(home) / "datasets" / "imdb.npz").is_file()
    return any((tfds_directory() / name).glob("**/dataset_info.json"))


def tfds_directory() -> pathlib.Path:
    """Returns the directory in which TensorFlow Datasets looks."""
    directory = os.environ.get("TFDS_DATA_DIR")
    return pathlib.Path(directory or "~/tensorflow_datasets").expanduser()


def how_to_get(name: str) -> str:
    """Returns which variable to set, and how to get the files of a data set.

    Args:
        name: The name of the data set.
    """
    load = f"`tfvn.datasets.load({name!r})`"
    if name == "imdb":
        return (
            "set TFVN_DATA_DIR to a directory with `imdb.npz`, or call "
            f"{load} on a machine with a connection and copy ~/.keras/datasets/imdb.npz "
            "to the same place here"
        )
    return (
        f"set TFDS_DATA_DIR to a directory with a folder `{name}` of TensorFlow "
        f"Datasets, or call {load} on a machine with a connection and copy "
        f"~/tensorflow_datasets/{name} to the same place here"
    )


def require(name: str) -> None:
    """Raises at once if a data set is not there and cannot be downloaded either.

    The libraries that download would try again for minutes.

    Args:
        name: The name of the data set.
    """
    if is_there(name) or _is_downloaded(name) or can_connect(HOSTS[name]):
        return
    where = "TFVN_DATA_DIR" if name == "imdb" else "TFDS_DATA_DIR"
    raise ConnectionError(
        f"The data set {name!r} is not on this machine, and {HOSTS[name]} can't be "
        f"reached to download it; {how_to_get(name)}. "
        f"Received: name={name!r} and {where}={os.environ.get(where)!r}"
    )


def _is_downloaded(name: str) -> bool:
    """Whether files of a data set were downloaded before, but not prepared."""
    # TensorFlow Datasets notes beside each download for which data set it was.
    notes = (tfds_directory() / "downloads").glob("*.INFO")
    return any(f'"{name}"' in note.read_text("utf-8") for note in notes)


def can_connect(host: str, timeout: float = _PATIENCE) -> bool:
    """Whether a host, or the proxy on the way to it, accepts a connection.

    Args:
        host: Name of the host.
        timeout: The number of seconds to wait.
    """
    proxies = urllib.request.getproxies()
    proxy = proxies.get("https") or proxies.get("http")
    port = 443
    if proxy and not urllib.request.proxy_bypass(host):
        parts = urllib.parse.urlsplit(proxy if "//" in proxy else f"//{proxy}")
        host, port = parts.hostname or host, parts.port or 80
    elif host.startswith("fashion-mnist"):
        port = 80  # this server has no encryption
    answers: list[bool] = []

    def connect() -> None:
        try:
            socket.create_connection((host, port), timeout).close()
        except OSError:
            return
        answers.append(True)

    # In a thread, because no timeout applies to the lookup of the host's address.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(timeout)
    return bool(answers)
