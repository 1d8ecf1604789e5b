"""Callbacks for training means and scales."""

from tfvn.training.callbacks.alternate_groups import AlternateGroups
from tfvn.training.callbacks.backup import BackupAndRestore
from tfvn.training.callbacks.evidence_lower_bound import EvidenceLowerBound
from tfvn.training.callbacks.gradient_snr import GradientSNR
from tfvn.training.callbacks.group_reduce_lr_on_plateau import GroupReduceLROnPlateau
from tfvn.training.callbacks.learning_rate_range import LearningRateRange
from tfvn.training.callbacks.phase_transition import PhaseTransition

__all__ = [
    "AlternateGroups",
    "BackupAndRestore",
    "EvidenceLowerBound",
    "GradientSNR",
    "GroupReduceLROnPlateau",
    "LearningRateRange",
    "PhaseTransition",
]
