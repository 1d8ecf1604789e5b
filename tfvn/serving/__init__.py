"""Ensembles for TensorFlow Serving: exports, and what checks them."""

from tfvn.serving.export import export_ensemble
from tfvn.serving.loader import LoadedModel

__all__ = ["LoadedModel", "export_ensemble"]
