"""The tests' own helpers: a loop over combinations must fail, and skip, as separate tests would."""

import itertools

import pytest

from support import every_third, in_turn, naming, over


def test_a_failure_names_its_combination():
    seen = []

    @over("a", [1, 2])
    @over(("b", "c"), [("x", 3), ("y", 4)])
    def test(a, b, c):
        seen.append((a, b, c))
        assert (a, b) != (2, "y"), "too much"

    with pytest.raises(AssertionError, match=r"with a=2: .*with b=y, c=4: .*too much"):
        test()
    assert seen == [(1, "x", 3), (1, "y", 4), (2, "x", 3), (2, "y", 4)]


def test_what_was_not_raised_is_named_too():
    @over("value", [1, 0], ids=["one", "none"])
    def test(value):
        with pytest.raises(ZeroDivisionError):
            1 / value

    with pytest.raises(AssertionError, match=r"with case=one.*DID NOT RAISE"):
        test()


def test_skipped_combinations_show_and_stop_no_other():
    seen = []

    @over("value", [1, 2, 3])
    def test(value):
        if value == 2:
            pytest.skip("it is even")
        seen.append(value)

    with pytest.raises(pytest.skip.Exception, match=r"1 of 3 combinations.*2.*it is even"):
        test()
    assert seen == [1, 3]


@over("value", [1, 2])
def test_fixtures_are_given_beside_the_values(value, rng):
    assert value in (1, 2)
    assert rng.random() < 1


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
