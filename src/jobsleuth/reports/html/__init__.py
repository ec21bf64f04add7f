"""One self-contained page: verdict, causes, queues, numbers, findings, suspicious jobs, provenance. No network."""

from jobsleuth.reports.html.page import prepare, render

__all__ = ["prepare", "render"]
