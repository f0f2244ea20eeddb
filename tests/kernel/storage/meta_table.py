"""Read and write the simplest table: texts by name."""

from holdfast.kernel.storage.port import Session, Store


def put(store: Store, **values: str) -> None:
    with store.transaction() as session:
        for name, body in values.items():
            session.do("meta_put", name=name, body=body)


def read_all(session: Session) -> dict[str, str]:
    return dict(session.rows("meta_list"))


def read(store: Store) -> dict[str, str]:
    with store.reading() as session:
        return read_all(session)
