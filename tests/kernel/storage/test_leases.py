"""A lease belongs to one owner at a time, on every engine."""

from holdfast.kernel.storage import leases
from holdfast.kernel.storage.port import Store


def test_a_lease_has_one_owner_until_it_expires_or_is_released(store: Store) -> None:
    with store.transaction() as session:
        assert leases.acquire(session, "curate", "one", until=100, now=0)
        assert not leases.acquire(session, "curate", "two", until=200, now=99)
        assert leases.acquire(session, "curate", "one", until=150, now=99)
        assert leases.acquire(session, "other", "two", until=150, now=99)
        assert leases.get_lease(session, "curate", now=149) == leases.Lease("one", 150)
        assert leases.get_lease(session, "curate", now=150) is None
        assert leases.acquire(session, "curate", "two", until=300, now=150)
        leases.release(session, "curate", "one")
        assert leases.get_lease(session, "curate", now=200) == leases.Lease("two", 300)
        leases.release(session, "curate", "two")
        assert leases.acquire(session, "curate", "one", until=400, now=200)
