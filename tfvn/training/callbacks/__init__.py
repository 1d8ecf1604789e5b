"""Callbacks for training means and scales."""

from tfvn.training.callbacks.alternate_groups import AlternateGroups
from tfvn.training.callbacks.backup import BackupAndRestore

__all__ = ["AlternateGroups", "BackupAndRestore"]
