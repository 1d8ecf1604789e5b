"""Measures of models and of what they are made of."""

from tfvn.analysis.jensen import JensenGap, jensen_gap

__all__ = ["JensenGap", "jensen_gap"]
