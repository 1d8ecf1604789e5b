"""Metrics of uncertainty."""
