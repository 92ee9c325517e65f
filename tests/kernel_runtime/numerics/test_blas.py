"""The threads that products take."""

import threading

import pytest

from nki_lab.kernel_runtime.numerics import blas


@pytest.mark.skipif(blas.threads() == 0, reason="the library does not say how many threads it takes")
def test_one_thread_inside_and_as_many_as_before_afterwards() -> None:
    before = blas.threads()
    with blas.single_thread():
        assert blas.threads() == 1
        with pytest.raises(ValueError, match="x"), blas.single_thread():
            raise ValueError("x")
        assert blas.threads() == 1
    assert blas.threads() == before


def test_values_leave_the_threads_as_they_are() -> None:
    before, seen = blas.threads(), []

    def use() -> None:
        for _ in range(200):
            with blas.single_thread():
                seen.append(blas.threads())

    users = [threading.Thread(target=use) for _ in range(4)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert len(seen) == 800
    assert set(seen) <= {0, 1}
    assert blas.threads() == before
