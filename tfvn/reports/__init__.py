"""Reports: a page that shows how good and how certain the predictions of a model are."""

from tfvn.reports.writing import Report, report

__all__ = ["Report", "report"]
