"""Commands that a report offers, ready to paste: whatever the evidence calls its jobs, it stays an argument."""

from __future__ import annotations

import shlex

from jobsleuth.safetext import terminal


def case_word(case: str) -> str:
    """The case's path as one word of a shell."""
    return shlex.quote(terminal(case))


def explain_command(check_id: str, own: bool) -> str:
    """The command that explains a check; of somebody's own it knows nothing without their file."""
    return f"jobsleuth explain {check_id}{' --checks FILE' if own else ''}"


def job_command(case: str, job_id: str, queue: str | None) -> str:
    """The command that tells the job's story; where its name cannot be typed, the one that lists the jobs."""
    named = [] if queue is None else ["--queue", queue]
    if queue is not None and queue.startswith("-"):
        named = [f"--queue={queue}"]
    target = [case, job_id]
    # Whatever begins with a dash must not be read as an option.
    dashed = any(word.startswith("-") for word in target)
    words = ["jobsleuth", "job", *([*named, "--", *target] if dashed else [*target, *named])]
    if any(terminal(w) != w for w in words):
        return f"jobsleuth jobs {case_word(case)}"
    return shlex.join(words)
