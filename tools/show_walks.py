"""Print the walk of the main calls: the files and functions that one library call runs.

python tools/show_walks.py             # the files of each walk, in the order in which they are entered
python tools/show_walks.py --functions # the functions too
python tools/show_walks.py --check     # fail if a walk enters more files than MAX_FILES allows
python tools/show_walks.py --docs      # write the files of each walk into docs/architecture.md
python tools/show_walks.py --check-docs # fail if a walk is too long or docs/architecture.md shows other files
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import holdfast

PACKAGE = Path(holdfast.__file__).resolve().parent
PAGE = Path(__file__).resolve().parents[1] / "docs/architecture.md"
SECTION = re.compile(r"(?<=<!-- walks -->\n).*?(?=<!-- /walks -->)", re.S)
"""The part of the page that shows the walks."""
MAX_FILES = {"store": 18, "recall": 20, "sync": 25, "supersede": 18, "task claim": 9}


class Walk(NamedTuple):
    """The functions one call runs, each once, in order of the first call."""

    functions: list[tuple[str, str]]
    """A file below src/holdfast, and the qualified name of a function in it."""
    calls: int

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(file for file, _ in self.functions))


def record_walk(call: Callable[[], Any]) -> Walk:
    """Run a call under a profile hook. Code that an import runs is not part of the walk."""
    functions: dict[tuple[str, str], None] = {}
    calls = 0

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)) and code.co_name != "<module>":
            calls += 1
            functions[Path(code.co_filename).relative_to(PACKAGE).as_posix(), code.co_qualname] = None

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return Walk(list(functions), calls)


def record_walks(folder: Path) -> dict[str, Walk]:
    """Record each main call on its second run, with warm caches."""
    with holdfast.open(str(folder / "here.db")) as here, holdfast.open(str(folder / "there.db")) as there:
        for number in range(3):
            here.store(
                title=f"Deploy day {number}", content=f"Release {number} goes out on Tuesdays.", namespace="shop"
            )
        here.reembed()  # otherwise the query computes what the worker has not finished
        here.recall("When do we deploy?")
        walks = {"store": record_walk(lambda: here.store(title="Port", content="The server listens on 9077."))}
        here.reembed()
        walks["recall"] = record_walk(lambda: here.recall("When do releases go out?"))
        there.sync(remote=str(folder / "here.db"), direction="pull")
        here.store(title="Stand-up", content="The stand-up is at nine.")
        walks["sync"] = record_walk(lambda: there.sync(remote=str(folder / "here.db"), direction="pull"))
        walks["supersede"] = record_supersession(here)
        here.task_add(title="First", due_at="2026-01-01T00:00:00Z")
        here.task_claim()
        here.task_add(title="Second", due_at="2026-01-01T00:00:00Z")
        walks["task claim"] = record_walk(here.task_claim)
    return walks


def record_supersession(store: holdfast.Holdfast) -> Walk:
    """Record a link that supersedes the source of a reflection."""
    for number in range(2):
        source = store.store(title=f"Source {number}", content=f"The build number {number} takes ten minutes.")
        newer = store.store(title=f"Newer {number}", content=f"Since May, build {number} is done within two.")
        store.reflect(title=f"Insight {number}", content="Builds take long.", source_ids=[source.id])
        walk = record_walk(lambda: store.link(source_id=newer.id, target_id=source.id, relation="supersedes"))  # noqa: B023
    return walk


def describe_walk(name: str, walk: Walk, *, functions: bool = False) -> str:
    """Describe a walk: the number of its files, and each file or function on a line."""
    head = f"{name}: {len(walk.files)} files"
    lines = walk.files
    if functions:
        head += f" ({MAX_FILES[name]} at most), {len(walk.functions)} functions, {walk.calls} calls"
        lines = [f"{file}:{function}" for file, function in walk.functions]
    return "\n".join((head, *(f"  {line}" for line in lines)))


def fill_page(text: str, walks: dict[str, Walk]) -> str:
    """Return the text of the page with the walks in its section."""
    blocks = "\n\n".join(f"```text\n{describe_walk(name, walk)}\n```" for name, walk in walks.items())
    return SECTION.sub(lambda _: f"\n{blocks}\n\n", text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", action="store_true", help="print functions too")
    parser.add_argument("--check", action="store_true", help="fail if a walk enters too many files")
    parser.add_argument("--docs", action="store_true", help="write the walks into docs/architecture.md")
    parser.add_argument(
        "--check-docs", action="store_true", help="fail if a walk is too long or docs/architecture.md shows others"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        walks = record_walks(Path(folder))
    page = PAGE.read_text("utf-8")
    filled = fill_page(page, walks)
    if options.docs:
        PAGE.write_text(filled, "utf-8")
        return 0
    too_long = [name for name, walk in walks.items() if len(walk.files) > MAX_FILES[name]]
    if options.check_docs:
        # What another thread has cached changes the order of the files.
        if is_stale := sorted(filled.splitlines()) != sorted(page.splitlines()):
            print(f"{PAGE.name} shows other walks than the code has. Run `make docs`.")
        for name in too_long:
            print(f"{name}: {len(walks[name].files)} files; {MAX_FILES[name]} at most.")
        return 1 if is_stale or too_long else 0
    for name, walk in walks.items():
        if options.check:
            print(f"{name}: {len(walk.files)} files ({MAX_FILES[name]} at most)")
        else:
            print(describe_walk(name, walk, functions=options.functions))
    return 1 if options.check and too_long else 0


if __name__ == "__main__":
    sys.exit(main())
