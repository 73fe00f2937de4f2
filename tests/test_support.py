"""The tests' own helpers: a failure names its values, and lists take turns."""

import itertools

import pytest

from support import every_third, in_turn, naming


def test_names_stand_before_the_error():
    with pytest.raises(AssertionError, match="with n=3: KeyError"), naming(n=3):
        {}[3]


def test_all_entries_take_turns():
    assert in_turn("abc", [1, 2]) == [("a", 1), ("b", 2), ("c", 1)]
    met = {pair for pair in itertools.chain(in_turn([1], "xyz"), in_turn("q", [7]))}
    assert met == {(1, "x"), (1, "y"), (1, "z"), ("q", 7)}


def test_every_value_is_in_one_of_three_turns_and_nightly_in_the_others():
    values = list(range(7))
    turns = [every_third(values, start) for start in range(3)]
    assert sorted(value for turn in turns for value in turn if value in values) == values
    for turn in turns:
        others = [param for param in turn if param not in values]
        assert {mark.name for param in others for mark in param.marks} == {"nightly"}
        assert [value if value in values else value.values[0] for value in turn] == values
