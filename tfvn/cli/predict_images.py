"""Images as rows for `tfvn predict`."""

import pathlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfvn.serving.saved_model import reason

SUFFIXES = (".png", ".jpg", ".jpeg")

# The bounds of pixels, by the values of `--pixels`.
_RANGES = {"0..255": (0.0, 255.0), "0..1": (0.0, 1.0), "-1..1": (-1.0, 1.0)}

# Where a PNG file stores the bits of a value, and how it begins.
_PNG, _BIT_DEPTH = b"\x89PNG", 24


def read_images(
    path: pathlib.Path, spec: tf.TensorSpec, pixels: str | None
) -> tuple[np.ndarray, list[str]]:
    """Returns the images of a file or folder as an array, and the names of their files.

    Args:
        path: An image, or a folder of images.
        spec: The input of the export: `(rows, height, width, channels)`, or without the
            channels.
        pixels: What to scale the pixels to: a key of `_RANGES`. `None` leaves them at 0 to
            255, which only an input of integers takes without a doubt.
    """
    if spec.shape.rank not in (3, 4):
        raise ValueError(
            "The input of the export must be an image for each row, of shape (height, "
            "width, channels) or (height, width), to predict images; pass a .npy or .csv "
            f"file. Received: --input {path} for an input of shape {_text(spec.shape[1:])}"
        )
    bounds = _bounds(path, spec, pixels)
    files = _files(path) if path.is_dir() else [path]
    images = [_fitted(file, _decoded(file), spec.shape[1:]) for file in files]
    for file, image in zip(files, images, strict=True):
        if image.shape != images[0].shape:
            raise ValueError(
                f"All images must have one shape. Received: {file} of shape "
                f"{_text(image.shape)}, but {files[0]} of shape {_text(images[0].shape)}"
            )
    array = np.stack(images)
    if bounds is not None:
        low, high = bounds
        array = (low + array * np.float64((high - low) / 255.0)).astype("float32")
    return array, [file.name for file in files]


def _bounds(
    path: pathlib.Path, spec: tf.TensorSpec, pixels: str | None
) -> tuple[float, float] | None:
    """Returns what pixels are scaled to, or `None` to leave them as they are."""
    if spec.dtype.is_floating:
        if pixels is None:
            raise ValueError(
                "The pixels of images must be scaled as in training: pass `--pixels 0..1`, "
                "`--pixels 0..255` (if the model scales them itself) or `--pixels=-1..1`. "
                f"Received: --input {path} without `--pixels`"
            )
        return _RANGES[pixels]
    if pixels not in (None, "0..255"):
        raise ValueError(
            f"`--pixels` must be 0..255 for an input of {spec.dtype.name}. Received: "
            f"--pixels {pixels}"
        )
    return None


def _files(folder: pathlib.Path) -> list[pathlib.Path]:
    files = sorted(
        path
        for path in folder.iterdir()
        if path.suffix.lower() in SUFFIXES and path.is_file()
    )
    if not files:
        raise ValueError(
            "A folder of inputs must contain images whose names end in .png, .jpg or "
            f".jpeg; folders inside of it are not searched. Received: --input {folder}, "
            "which has none"
        )
    return files


def _decoded(file: pathlib.Path) -> np.ndarray:
    content = file.read_bytes()
    if content.startswith(_PNG) and content[_BIT_DEPTH : _BIT_DEPTH + 1] == b"\x10":
        raise ValueError(
            "An image must have 8 bits for each value; convert it, or pass a .npy file. "
            f"Received: {file} with 16 bits"
        )
    try:
        return tf.io.decode_image(content, expand_animations=False).numpy()
    except tf.errors.OpError as error:
        raise ValueError(
            f"An image must be a PNG or JPEG file. Received: {file}: {reason(error)}"
        ) from error


def _fitted(
    file: pathlib.Path, image: np.ndarray, shape: Sequence[int | None]
) -> np.ndarray:
    """Returns an image with the channels of the input; raises if its size is another."""
    has_channels = len(shape) == 3
    fitted = _with_channels(image, shape[-1] if has_channels else 1)
    if not has_channels and fitted.shape[-1] == 1:
        fitted = fitted[..., 0]
    fits = len(fitted.shape) == len(shape) and all(
        wanted in (None, size) for wanted, size in zip(shape, fitted.shape, strict=True)
    )
    if not fits:
        raise ValueError(
            f"An image must have the shape of the export's input, {_text(shape)}; resize "
            f"or convert it. Received: {file} of shape {_text(image.shape)}"
        )
    return fitted


def _with_channels(image: np.ndarray, wanted: int | None) -> np.ndarray:
    """Returns an image with other channels if that loses nothing, and else as it is."""
    channels = image.shape[-1]
    if wanted in (None, channels):
        return image
    if channels in (2, 4) and np.all(image[..., -1] == 255):
        # All of it is opaque.
        return _with_channels(image[..., :-1], wanted)
    if channels == 1 and wanted == 3:
        return np.repeat(image, 3, axis=-1)
    if channels == 3 and wanted == 1 and np.all(image == image[..., :1]):
        return image[..., :1]
    return image


def _text(shape: Sequence[int | None]) -> str:
    sizes = ["?" if size is None else str(size) for size in shape]
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"
