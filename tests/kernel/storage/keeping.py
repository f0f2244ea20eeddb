"""The least that a store can keep: texts under names."""

from holdfast.kernel.storage.port import Session, Store


def put(store: Store, **values: str) -> None:
    with store.writing() as session:
        for name, body in values.items():
            session.do("kept_put", name=name, body=body)


def kept(session: Session) -> dict[str, str]:
    return dict(session.rows("kept_all"))


def read(store: Store) -> dict[str, str]:
    with store.reading() as session:
        return kept(session)
