"""The one place that knows the order of the stages."""

from jobsleuth.pipeline.analyze import AnalyzeOptions, Progress, analyze

__all__ = ["AnalyzeOptions", "Progress", "analyze"]
