"""Ensembles for TensorFlow Serving: exports, and the checks of an export."""

from tfvn.serving.export import export_ensemble

__all__ = ["export_ensemble"]
