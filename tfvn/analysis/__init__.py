"""Measures of models and of their parts."""

from tfvn.analysis.jensen import JensenGap, jensen_gap

__all__ = ["JensenGap", "jensen_gap"]
