"""The directory of a served model: one subdirectory for each version, named by a number.

TensorFlow Serving looks at it every second and loads what it finds, so a version has to
be there as a whole or not at all.
"""

import contextlib
import errno
import os
import pathlib
import shutil
import uuid
from collections.abc import Iterator

# What a rename says of a target that is there.
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)


def find(base: pathlib.Path) -> dict[int, pathlib.Path]:
    """Returns the versions in a directory, by number, the newest last."""
    if not base.is_dir():
        return {}
    found = {
        int(path.name): path
        for path in base.iterdir()
        if path.name.isascii() and path.name.isdigit()
    }
    return dict(sorted(found.items()))


def resolve(path: pathlib.Path) -> pathlib.Path:
    """Returns the directory of a SavedModel: the path itself, or its newest version."""
    if (path / "saved_model.pb").is_file():
        return path
    versions = {n: p for n, p in find(path).items() if (p / "saved_model.pb").is_file()}
    if not versions:
        raise FileNotFoundError(
            "Argument `path` must be an export, or a directory of numbered ones. "
            f"Received: path={str(path)!r}"
        )
    return versions[max(versions)]


@contextlib.contextmanager
def publishing(base: pathlib.Path, version: int | None) -> Iterator["Draft"]:
    """Gives a place to write a version to, out of the server's sight.

    Within the context, `publish` moves what was written to where the server looks for
    it. What has not been published when the context is left is deleted. A process that
    is killed may leave a directory whose name begins with `.export-`: no server looks at
    it, and it can be deleted.

    Args:
        base: The directory of the model.
        version: A number; `None` is the next one.
    """
    _check(base, version)
    base.mkdir(parents=True, exist_ok=True)
    folder = base / f".export-{uuid.uuid4().hex}"
    folder.mkdir()
    try:
        yield Draft(base, version, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Draft:
    """A version that is being written.

    Args:
        base: The directory of the model.
        version: Its number; `None` is the next one when it is published.
        folder: Where to write it.
    """

    def __init__(self, base: pathlib.Path, version: int | None, folder: pathlib.Path):
        self._base, self._version, self.folder = base, version, folder

    def publish(self) -> pathlib.Path:
        """Moves the version to its place, at once, and returns that."""
        while True:
            number = self._version or max(find(self._base), default=0) + 1
            target = self._base / str(number)
            if not target.exists():
                # It fails on a version that another process published just now.
                try:
                    os.rename(self.folder, target)  # noqa: PTH104
                except OSError as error:
                    if error.errno not in _TAKEN:
                        raise
                else:
                    return target
            _check(self._base, self._version)


def _check(base: pathlib.Path, version: int | None) -> None:
    if version is None:
        return
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(
            "Argument `version` must be an integer of at least 1, or `None` for the next "
            f"one. Received: version={version!r}"
        )
    if version in find(base):
        raise FileExistsError(
            "Argument `version` must be one that is not there yet; no version is ever "
            f"overwritten. Received: version={version} in {str(base)!r}"
        )
