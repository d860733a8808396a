"""One rule for percentiles."""

from hypothesis import given
from hypothesis import strategies as st

from failover.percentiles import percentiles

SHARES = (0.0, 0.5, 0.95, 0.99, 0.999, 1.0)


@given(st.lists(st.integers(0, 10**9), min_size=1))
def test_a_percentile_is_the_value_that_is_nearest_in_rank(values: list[int]) -> None:
    ranked = sorted(values)
    nearest = [ranked[round(share * (len(ranked) - 1))] for share in SHARES]
    assert percentiles(values, SHARES) == nearest


def test_without_values_it_is_zero() -> None:
    assert percentiles([], SHARES) == [0.0] * len(SHARES)
