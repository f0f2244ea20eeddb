"""Files of a home folder."""

from pathlib import Path


def write(home: Path, found: dict[str, bytes]) -> None:
    for name, data in found.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(data)
