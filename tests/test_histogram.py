"""Histograms as bpftrace prints them."""

import pytest

from loopwright.errors import InputError
from loopwright.histogram import Bucket, Histogram, read

LHIST = """\
some mail says that

@[kprobe:memcpy]:
(..., 64)              3 |@@@@@@@@@@|
[64, 576)              1 |@@        |

@[kprobe:memset]:
[1K, 2K)               5 |@@@@@@    |
[16K, ...)             5 |@@@@@@    |
and goes on
"""
HIST = """\
@sizes:
[0]                    2 |@@@@      |
[1]                    0 |          |
[2, 4)                 6 |@@@@@@@@@@|
"""


def _file(tmp_path, text):
    path = tmp_path / "sizes.txt"
    path.write_text(text)
    return path


def test_a_map_is_chosen_by_part_of_its_name(tmp_path):
    histogram = read(f"{_file(tmp_path, LHIST)}:memset")
    assert histogram.buckets == (Bucket(1024, 2048, 5), Bucket(16384, None, 5))


def test_several_maps_and_no_choice_names_them(tmp_path):
    with pytest.raises(InputError, match=r"memcpy.*memset"):
        read(str(_file(tmp_path, LHIST)))


def test_powers_of_two_and_single_values_are_read(tmp_path):
    histogram = read(str(_file(tmp_path, HIST)))
    assert histogram.buckets == (Bucket(0, 1, 2), Bucket(1, 2, 0), Bucket(2, 4, 6))
    assert histogram.total == 8


def test_the_sizes_of_a_wide_bucket_leave_all_rests():
    sizes = [int(size) for size, _ in Histogram("@a", (Bucket(64, 576, 1),)).points()]
    assert all(64 <= size < 576 for size in sizes)
    assert len({size % 8 for size in sizes}) >= 5
    assert len({size % 64 for size in sizes}) == len(sizes)
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("bucket", [Bucket(0, 128, 3), Bucket(8, 24, 3), Bucket(1024, 65536, 3)])
def test_the_mean_of_a_bucket_is_its_middle(bucket):
    histogram = Histogram("@a", (bucket,))
    assert histogram.mean(lambda size: size) == pytest.approx((bucket.low + bucket.high) / 2)
    assert all(bucket.low <= size < bucket.high for size, _ in histogram.points())


def test_how_an_open_end_is_weighed_is_said(tmp_path):
    path = _file(tmp_path, LHIST)
    assert read(f"{path}:memcpy").open_bucket_note == ""
    histogram = read(f"{path}:memset")
    note = "50 % of the calls are of 16384 B or more, and counted as 16384 B"
    assert histogram.open_bucket_note == note
    assert histogram.share_from(8193) == 0.5


def test_the_mean_spreads_a_bucket_evenly_and_takes_an_open_one_at_its_low_end(tmp_path):
    path = _file(tmp_path, LHIST)
    # (32 * 3 + 320 * 1) / 4 and (1536 * 5 + 16384 * 5) / 10
    assert read(f"{path}:memcpy").mean(lambda size: size) == pytest.approx(104)
    assert read(f"{path}:memset").mean(lambda size: size) == pytest.approx(8960)


@pytest.mark.parametrize(
    ("text", "words"),
    [("no rows here\n", "no bpftrace histogram"), ("@a:\n[0, 4)     0 |   |\n", "counts no calls")],
)
def test_a_file_without_counts_is_refused(tmp_path, text, words):
    with pytest.raises(InputError, match=words):
        read(str(_file(tmp_path, text)))


def test_a_missing_file_is_refused():
    with pytest.raises(InputError, match="no such file"):
        read("/nonexistent:memcpy")
