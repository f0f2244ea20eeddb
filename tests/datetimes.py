"""Times of the library from times of the store."""

from datetime import datetime, timedelta

from holdfast.kernel.timestamps import EPOCH


def to_datetime(timestamp: int) -> datetime:
    return EPOCH + timedelta(microseconds=timestamp)
