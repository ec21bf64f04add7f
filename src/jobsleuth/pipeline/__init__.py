"""The one place that knows the order of the stages."""

from jobsleuth.pipeline.analyze import AnalyzeOptions, Progress, analyze, analyze_and_tell

__all__ = ["AnalyzeOptions", "Progress", "analyze", "analyze_and_tell"]
