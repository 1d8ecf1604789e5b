"""Writes the pages of the reference: every public name, grouped as people look for it.

The names are those in `__all__`, read without importing the library. mkdocstrings puts
the signature and the docstring of each in its place.
"""

import pathlib

import griffe

POSTERIORS = ("Variance", "GaussianDropout", "MeanField", "KTied")
OPERATIONS = (
    "Dense",
    "EinsumDense",
    "Conv1D",
    "Conv2D",
    "Conv3D",
    "Conv2DTranspose",
    "DepthwiseConv2D",
    "LSTM",
    "LSTMCell",
    "GRU",
    "GRUCell",
)
NOISE = (
    "MultiplicativeNoise",
    "NoisyDense",
    "NoisyConv2D",
    "NoisyLSTM",
    "NoisyLSTMCell",
    "NoisyResidual",
)
# The names at the top of the package, by page. Names that no page lists are analysis.
PAGES = {
    "models": (
        "Models",
        ("Model", "Sequential", "multi_worker_strategy", "variable_groups"),
    ),
    "noise": ("Noise layers", NOISE),
    "prediction": (
        "Prediction",
        (
            "ensemble_predict",
            "mean_predict",
            "zero_mean_predict",
            "sample_model",
            "EnsemblePrediction",
            "PredictiveDistribution",
        ),
    ),
    "export": ("Export", ("export_ensemble",)),
}


def write(directory: pathlib.Path) -> None:
    """Writes all pages to a directory."""
    directory.mkdir(parents=True)
    tfvn = griffe.load("tfvn", search_paths=[str(pathlib.Path(__file__).parent.parent)])
    pages = page_names(tfvn)
    index = ["# Reference", ""]
    for page, (title, names) in pages.items():
        lines = [f"# {title}", ""]
        for name in names:
            lines += [f"::: {name}", ""]
        (directory / f"{page}.md").write_text("\n".join(lines), "utf-8")
        listed = ", ".join(f"`{name.removeprefix('tfvn.')}`" for name in names)
        index.append(f"- [{title}]({page}.md): {listed}")
    (directory / "index.md").write_text("\n".join(index) + "\n", "utf-8")


def page_names(tfvn: griffe.Module) -> dict[str, tuple[str, list[str]]]:
    """Returns the title and the names of each page.

    Args:
        tfvn: The library, as griffe has read it.
    """
    names = [name for name in _public(tfvn) if name != "__version__"]
    modules = [name for name in names if tfvn[name].is_module]
    presets = {p + op for p in POSTERIORS for op in OPERATIONS}
    pages = {}
    for page, (title, listed) in PAGES.items():
        pages[page] = (title, [f"tfvn.{name}" for name in listed])
    for op in OPERATIONS:
        these = [f"tfvn.layers.{op}", *(f"tfvn.layers.{p}{op}" for p in POSTERIORS)]
        pages[f"layers_{op.lower()}"] = (f"{op} layers", these)
    placed = presets | {name for _, listed in PAGES.values() for name in listed}
    rest = [name for name in names if name not in placed and name not in modules]
    pages["analysis"] = ("Analysis", [f"tfvn.{name}" for name in rest])
    layers = [*presets, *OPERATIONS, *NOISE]
    for module in modules:
        inside = [x for x in _public(tfvn[module]) if x not in layers]
        title = "Other layers" if module == "layers" else f"tfvn.{module}"
        pages[module] = (title, [f"tfvn.{module}.{name}" for name in inside])
    return pages


def _public(module: griffe.Module | griffe.Alias) -> list[str]:
    names = module.exports
    if names is None:
        raise ValueError(f"`{module.path}` must have an `__all__`.")
    return [str(getattr(name, "name", name)) for name in names]
