"""The directory of a served model: one subdirectory for each version, named by a number.

TensorFlow Serving looks into it every second and loads the versions that it finds, so a
version has to appear as a whole or not at all.
"""

import contextlib
import errno
import numbers
import os
import pathlib
import re
import shutil
import uuid
from collections.abc import Iterator
from typing import Any

from tfvn.utils.validation import check_path

# The file of a SavedModel that has its graph.
FILE = "saved_model.pb"

# The errors of a rename to a target that exists.
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)

# TensorFlow Serving keeps the number of a version in 64 bits with a sign.
_LARGEST = 2**63 - 1

# A scheme has at least two letters: a single letter is a drive. `pathlib` removes one of
# the two slashes.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def place(path: str | os.PathLike, option: str | None = None) -> pathlib.Path:
    """Returns the directory of a path; raises if this process cannot put versions there.

    Args:
        path: A path on this machine. A `~` at its beginning is the home directory.
        option: The option of a command that has the path, for errors. `None` stands for
            the argument `path` of a function.
    """
    check_path("path", path, "the directory of a model")
    text = os.fsdecode(path)
    name, received, advice = f"`{option}`", f"{option} {text}", ""
    if option is None:
        name, received = "Argument `path`", f"path={text!r}"
        advice = "; pass the number as `version` instead"
    if _SCHEME.match(text):
        raise ValueError(
            f"{name} must be a directory on this machine, because a server could load "
            "a version from a remote directory before it is complete; export to a "
            "local directory, then copy the finished version. Received: "
            f"{received}"
        )
    base = pathlib.Path(text).expanduser()
    last = base.resolve().name
    if last.isdecimal():
        raise ValueError(
            f"{name} must be the directory of a model, not of one of its numbered "
            f"versions{advice}. Received: {received}, whose last part is the number {last}"
        )
    # The nearest parent that exists, in which the others would be created.
    there = base
    while not os.path.lexists(there):
        there = there.parent
    if not there.is_dir():
        raise NotADirectoryError(
            f"{name} must be a directory, or one that can be created. "
            f"Received: {received}, where {str(there)!r} is not a directory"
        )
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(
            f"{name} must be a directory that this process may write to. "
            f"Received: {received}, where {str(there)!r} is read-only"
        )
    return base


def find(base: pathlib.Path) -> dict[int, pathlib.Path]:
    """Returns the versions in a directory, by number, the newest last."""
    if not base.is_dir():
        return {}
    found = {
        int(path.name): path
        for path in base.iterdir()
        if path.name.isascii()
        and path.name.isdigit()
        # A server ignores larger numbers.
        and int(path.name) <= _LARGEST
    }
    return dict(sorted(found.items()))


def resolve(path: pathlib.Path) -> pathlib.Path:
    """Returns the directory of a SavedModel: the path itself, or its newest version.

    Args:
        path: The argument `PATH` of a command.
    """
    if (path / FILE).is_file():
        return path
    exports = _exports(path)
    if not exports:
        raise FileNotFoundError(
            "PATH must be an export, or a directory of numbered exports. "
            f"Received: {path}{_what_is_there(path)}"
        )
    return exports[-1]


def _exports(base: pathlib.Path) -> list[pathlib.Path]:
    """Returns the versions that are SavedModels, the newest last."""
    return [x for x in find(base).values() if (x / FILE).is_file()]


def _what_is_there(path: pathlib.Path) -> str:
    """Returns the end of a sentence: what a path is, and where exports are near it."""
    if path.is_file():
        return ", which is a file"
    if not path.exists():
        others = ", ".join(map(str, _exports(path.parent)))
        return ", which does not exist" + (f"; there are: {others}" if others else "")
    # A glob passes over directories that this process may not read.
    files = path.glob(f"*/*/{FILE}")
    places = sorted({str(x.parents[1]) for x in files if x.parent.name.isdecimal()})
    hint = f", but there are exports in {', '.join(places)}" if places else ""
    return f": it has none{hint}"


@contextlib.contextmanager
def draft(base: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields a directory to write a version to, which servers ignore.

    The directory is deleted at the end of the context unless it was published. A process
    that is killed may leave a directory whose name begins with `.export-`; you can delete
    it.

    Args:
        base: The directory of the model.
    """
    base.mkdir(parents=True, exist_ok=True)
    folder = base / f".export-{uuid.uuid4().hex}"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def publish(
    folder: pathlib.Path, base: pathlib.Path, version: int | None
) -> pathlib.Path:
    """Renames a draft to a version, which the server then finds, and returns its path.

    Args:
        folder: The draft.
        base: The directory of the model.
        version: The number of the version; `None` is the next one.
    """
    while True:
        check(base, version)
        number = max(find(base), default=0) + 1 if version is None else version
        _check_number(number)
        target = base / str(number)
        try:
            os.rename(folder, target)  # noqa: PTH104
        except OSError as error:
            # Another process published this number just now.
            if error.errno not in _TAKEN:
                raise
        else:
            return target


def check(base: pathlib.Path, version: int | None) -> None:
    """Raises unless a version can be written.

    Args:
        base: The directory of the model.
        version: The number of the version; `None` is the next one.
    """
    if version is None:
        return
    _check_number(version)
    if version in find(base):
        raise FileExistsError(
            "Argument `version` must be a number that does not exist yet, because "
            "`export_ensemble` never overwrites a version. Received: "
            f"version={version} in {str(base)!r}"
        )


def _check_number(version: Any) -> None:
    is_integer = isinstance(version, numbers.Integral) and not isinstance(version, bool)
    if not is_integer or not 1 <= version <= _LARGEST:
        raise ValueError(
            "Argument `version` must be an integer from 1 to 2**63 - 1, or `None` for the "
            f"next one. Received: version={version!r}"
        )
