"""Ids of jobs as SQL tells them apart: what differs as bytes differs, and comes back as it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jobsleuth.case.identity import readable, stored, told_apart
from jobsleuth.safetext import from_bytes

PRIVATE = "".join(map(chr, (0x0FFFFF, 0x100000, 0x1000FF, 0x100100, 0x100101)))
IDS = st.binary(max_size=12) | st.text(f"a\\xf{PRIVATE}é", max_size=8).map(str.encode)


@given(IDS)
def test_ids_come_back_as_they_were(data: bytes) -> None:
    """As the bytes that were stored, and as the text that the tables show; UTF-8 can hold what stands for them."""
    apart = told_apart(data)
    assert stored(apart) == data
    assert readable(apart) == from_bytes(data)
    apart.encode()


@given(IDS, IDS)
def test_what_differs_differs_and_parts_stay_parts(one: bytes, other: bytes) -> None:
    """No two ids are one, however much they read the same; behind a colon an id is as it is alone, as keys have it."""
    assert (told_apart(one) == told_apart(other)) == (one == other)
    assert told_apart(one + b":" + other) == f"{told_apart(one)}:{told_apart(other)}"
