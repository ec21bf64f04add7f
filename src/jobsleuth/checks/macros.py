"""SQL macros that every check may use besides DuckDB's own functions."""

from __future__ import annotations

MACROS = (
    # Milliseconds as words, two units at most: `40 ms`, `12 s`, `3 min 20 s`, `5 h 02 min`, `3 d 4 h`.
    """
    CREATE TEMP MACRO duration_text(ms) AS CASE
        WHEN ms < 1000 THEN (ms)::BIGINT || ' ms'
        WHEN ms < 60000 THEN (ms // 1000)::BIGINT || ' s'
        WHEN ms < 3600000 THEN (ms // 60000)::BIGINT || ' min ' || ((ms // 1000) % 60)::BIGINT || ' s'
        WHEN ms < 86400000 THEN (ms // 3600000)::BIGINT || ' h ' || ((ms // 60000) % 60)::BIGINT || ' min'
        ELSE (ms // 86400000)::BIGINT || ' d ' || ((ms // 3600000) % 24)::BIGINT || ' h'
    END
    """,
    # A count with its noun: `1 job`, `1,234 jobs`.
    """
    CREATE TEMP MACRO count_text(n, noun) AS format('{:,} ', n::BIGINT) || noun || CASE WHEN n = 1 THEN '' ELSE 's' END
    """,
    # The numbers of a version that a text holds, `bullmq:5.81.5` as [5, 81, 5]; null where it holds none.
    """
    CREATE TEMP MACRO version_of(stored) AS CASE WHEN regexp_matches(stored, '\\d{1,9}\\.\\d{1,9}\\.\\d{1,9}') THEN
        list_transform(
            regexp_extract_all(regexp_extract(stored, '\\d{1,9}\\.\\d{1,9}\\.\\d{1,9}'), '\\d+'), lambda n: n::INTEGER
        )
    END
    """,
    # The oldest major release that a BullMQ queue's layout allows; 0 for Bull and for other libraries.
    """
    CREATE TEMP MACRO major_of(layout) AS
        coalesce(try_cast(regexp_extract(layout, '^bullmq (\\d{1,4})', 1) AS INTEGER), 0)
    """,
    # What stands before the last part of a queue's keys.
    """
    CREATE TEMP MACRO base_of(namespace, queue) AS
        CASE WHEN namespace = '' THEN queue ELSE namespace || ':' || queue END
    """,
)
"""Run on each connection before the checks."""
