"""Key grammar that needs no dump: where a base divides, what states follow from structures, how scores decode."""

from __future__ import annotations

import numpy as np
import pytest

from jobsleuth.dialects.bullmq.grammar import STRUCTURES, split_base, version_of
from jobsleuth.dialects.bullmq.states import BULL_ORDER, STATES, bit, decode_scores, state_codes


@pytest.mark.parametrize(
    ("base", "namespace", "queue", "doubt"),
    [
        (b"bull:emails", b"bull", b"emails", False),
        (b"{bull}:emails", b"{bull}", b"emails", False),
        (b"bull:{emails}", b"bull", b"{emails}", False),
        (b"bull:a:b", b"bull", b"a:b", True),
        (b"app:emails", b"app", b"emails", False),
        (b"app:prod:emails", b"app:prod", b"emails", True),
        (b"{app:prod}:emails", b"{app:prod}", b"emails", False),
        (b"app:{a:b}", b"app", b"{a:b}", False),
        (b":emails", b"", b"emails", False),
        (b"emails", b"", b"emails", True),
    ],
)
def test_a_base_divides_at_its_last_colon_but_under_bull_at_the_first(
    base: bytes, namespace: bytes, queue: bytes, doubt: bool
) -> None:
    """The rule of the design, and a doubt is told wherever another reading is possible."""
    split = split_base(base)
    assert (namespace, queue, doubt) == (split.namespace, split.queue, split.doubt is not None)


def test_a_settled_prefix_wins_and_takes_the_doubt_away() -> None:
    """`--prefix`: the longest that fits."""
    split = split_base(b"bull:tenant:emails", (b"bull", b"bull:tenant"))
    assert (split.namespace, split.queue, split.doubt) == (b"bull:tenant", b"emails", None)


def test_a_release_that_refuses_colons_settles_the_division() -> None:
    """5.12.12 and later throw on a queue name with a colon, so one it opened has none."""
    new, old = split_base(b"bull:x:emails", (), (5, 12, 12)), split_base(b"bull:x:emails", (), (5, 12, 11))
    assert (new.namespace, new.queue, new.doubt) == (b"bull:x", b"emails", None)
    assert (old.namespace, old.queue) == (b"bull", b"x:emails")


def test_versions_are_read_from_what_any_port_writes() -> None:
    """`meta.version` is `<library>:<semver>`."""
    assert version_of(b"bullmq:5.81.5") == (5, 81, 5)
    assert version_of(b"py:2.19.5-rc1") == (2, 19, 5)
    assert version_of(b"bullmq:next") is None


def _state(*structures: str, bull: bool = False) -> str:
    mask = np.array([sum(bit(s) for s in structures)], np.uint16)
    return STATES[int(state_codes(mask, np.array([bull]))[0])]


@pytest.mark.parametrize(
    ("structures", "state"),
    [
        (("wait", "completed"), "completed"),
        (("failed", "delayed"), "failed"),
        (("delayed", "prioritized"), "delayed"),
        (("prioritized", "active"), "prioritized"),
        (("active", "wait"), "active"),
        (("wait", "paused"), "waiting"),
        (("paused",), "waiting"),
        (("paused", "waiting-children"), "waiting"),
        (("waiting-children",), "waiting-children"),
        (("stalled", "priority"), "unknown"),
        ((), "unknown"),
    ],
)
def test_the_first_structure_in_the_librarys_order_gives_the_state(structures: tuple[str, ...], state: str) -> None:
    """The order of getState-8.lua, 4.0.0 to 6.7.0."""
    assert state == _state(*structures)


def test_bull_has_words_of_its_own() -> None:
    """Bull 3 and 4: `paused` is a state, none is `stuck`."""
    assert [
        _state("paused", bull=True),
        _state("wait", "paused", bull=True),
        _state(bull=True),
    ] == ["paused", "waiting", "stuck"]
    assert {s for s, _ in BULL_ORDER} <= set(STRUCTURES)


def test_delayed_scores_past_2_to_the_53_keep_their_due_time() -> None:
    """ms * 4096 passes 2^53 after 2039-09-07T15:47:35.552Z: the double rounds, the millisecond survives."""
    edge = 2**53 // 4096
    due = [edge - 1, edge, edge + 1, 4_102_444_800_000, 253_402_300_799_999]
    score = np.array([float(ms * 4096 + 6) for ms in due])
    ms, known, sequence, sequenced = decode_scores(np.full(5, STRUCTURES.index("delayed"), np.int8), score)
    assert due == ms.tolist()
    assert known.all()
    assert sequenced.all()
    assert sequence[:3].tolist() == [6, 6, 6]


def test_scores_that_are_no_moment_give_none() -> None:
    """Infinite, not a number, beyond any calendar: null, the score itself stays."""
    score = np.array([np.inf, -np.inf, np.nan, 1e300])
    _, known, _, sequenced = decode_scores(np.full(4, STRUCTURES.index("delayed"), np.int8), score)
    assert not known.any()
    assert sequenced.tolist() == [False, False, False, True]


def test_a_marker_of_score_zero_says_ready_not_1970() -> None:
    """5.0.0+: score 0 of a marker is no moment; else it is the next due time, a fraction cut."""
    score = np.array([0.0, 1_796_039_442_260.5])
    ms, known, _, _ = decode_scores(np.full(2, STRUCTURES.index("marker"), np.int8), score)
    assert known.tolist() == [False, True]
    assert ms[1] == 1_796_039_442_260
