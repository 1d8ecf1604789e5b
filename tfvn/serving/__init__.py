"""Exports of ensembles for TensorFlow Serving, and the checks of an export."""

from tfvn.serving.export import export_ensemble

__all__ = ["export_ensemble"]
