"""Tests that fill the memory of a GPU run alone, the others together."""

import fcntl
import threading

import pytest

from turnstile import turn


def is_free(path, kind):
    """Whether another process could lock the file now."""
    with open(path, "w") as file:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_together(tmp_path):
    with turn(tmp_path, alone=False), turn(tmp_path, alone=False):
        assert not is_free(tmp_path / "inside.lock", fcntl.LOCK_EX)
    assert is_free(tmp_path / "inside.lock", fcntl.LOCK_EX)


def test_alone(tmp_path):
    with turn(tmp_path, alone=True):
        assert not is_free(tmp_path / "inside.lock", fcntl.LOCK_SH)
    assert is_free(tmp_path / "inside.lock", fcntl.LOCK_SH)


def test_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), turn(tmp_path, alone=True):
        _ = 1 / 0
    assert is_free(tmp_path / "inside.lock", fcntl.LOCK_EX)


def test_nobody_comes_in_before_one_who_waits_to_be_alone(tmp_path):
    order = []

    def enter(name, alone):
        with turn(tmp_path, alone):
            order.append(name)

    first = threading.Thread(target=enter, args=("alone", True))
    second = threading.Thread(target=enter, args=("together", False))
    with turn(tmp_path, alone=False):
        first.start()
        while is_free(tmp_path / "turnstile.lock", fcntl.LOCK_EX):  # until the first waits, and holds it
            pass
        second.start()
        assert order == []
    first.join()
    second.join()
    assert order == ["alone", "together"]
