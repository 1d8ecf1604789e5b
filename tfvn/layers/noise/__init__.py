"""Layers with multiplicative noise: dropout, its relatives, and their structures."""
