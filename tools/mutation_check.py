"""Check which faults in tools/mutations.toml the tests find; each is applied to a private copy of the tree.

    python tools/mutation_check.py --check                     # only check that every fault applies and compiles
    python tools/mutation_check.py --stage feature --only ID
    python tools/mutation_check.py --full --report faults.jsonl

A fault is tested with the tests of its feature, then with all fast tests, then (with --full) with every test, until one
fails. The failed test is run again alone, in an unchanged copy, where it must pass, and in the changed one; a fault
whose test passes there is marked doubtful. A copy has its own environment of links, so processes that tests start run
the code of the copy.
"""

import argparse
import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCES = Path("src/holdfast")
MCP_TOOLS = Path("tests/acceptance/node_modules")
COPIES = "/dev/shm"  # noqa: S108 - each copy has a folder that nobody else can guess or enter
STAGE_SECONDS = 7200
PYTEST = ("-x", "-n", "3", "--dist", "worksteal", "-p", "no:cacheprovider")
FIRST_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?::.+?)(?: - .*)?$", re.M)

Stage = Literal["feature", "commit", "full"]


class CheckFailed(Exception):
    """The check could not decide whether a fault is found."""


class Fault(NamedTuple):
    id: str
    file: str
    old: str
    new: str
    tests: list[str]
    effect: str


def read_faults() -> list[Fault]:
    listed = tomllib.loads((ROOT / "tools/mutations.toml").read_text())["fault"]
    return [Fault(**one) for one in listed]


def changed_text(tree: Path, fault: Fault) -> str:
    """Return the text of a fault's file with the fault applied."""
    text = (tree / SOURCES / fault.file).read_text()
    if (found := text.count(fault.old)) != 1 or fault.old == fault.new:
        raise CheckFailed(f"{fault.id}: `old` occurs {found} times in {fault.file} (must be 1), or equals `new`")
    changed = text.replace(fault.old, fault.new)
    if fault.file.endswith(".py"):
        try:
            before, after = ast.dump(ast.parse(text)), ast.dump(ast.parse(changed))
        except SyntaxError as error:
            raise CheckFailed(f"{fault.id}: {fault.file} does not compile: {error}") from None
        if before == after:
            raise CheckFailed(f"{fault.id}: the change does not affect the code")
    return changed


def check_list(faults: Sequence[Fault]) -> list[str]:
    """Return the problems of the list."""
    wrong = [f"{fault.id}: duplicate id" for fault in faults if [one.id for one in faults].count(fault.id) > 1]
    for fault in faults:
        wrong += [f"{fault.id}: {path} does not exist" for path in fault.tests if not (ROOT / path).exists()]
        try:
            changed_text(ROOT, fault)
        except CheckFailed as error:
            wrong.append(str(error))
    return wrong


@contextmanager
def copy_tree() -> Iterator[Path]:
    """Copy all tracked and untracked files, with an environment that uses the copy's Holdfast."""
    listed = subprocess.check_output(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT)  # noqa: S607
    with tempfile.TemporaryDirectory(prefix="mutation-", dir=COPIES, ignore_cleanup_errors=True) as folder:
        tree = Path(folder)
        for name in filter(None, listed.decode().split("\0")):
            if (ROOT / name).is_file():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, tree / name)
        link_environment(ROOT / ".venv", tree / ".venv", tree / "src")
        (tree / MCP_TOOLS).symlink_to(ROOT / MCP_TOOLS)
        yield tree


def link_environment(installed: Path, to: Path, sources: Path) -> None:
    """Link all installed packages, except Holdfast's location and the Python of scripts."""
    packages = next(installed.glob("lib/python*/site-packages"))
    linked = to / packages.relative_to(installed)
    linked.mkdir(parents=True)
    for one in packages.iterdir():
        if one.name == "_editable_impl_holdfast.pth":
            (linked / one.name).write_text(f"{sources}\n")
        else:
            (linked / one.name).symlink_to(one)
    (to / "bin").mkdir()
    for one in (installed / "bin").iterdir():
        if one.is_symlink() or not one.read_bytes().startswith(b"#!"):
            shutil.copy2(one, to / "bin" / one.name, follow_symlinks=False)
        else:
            (to / "bin" / one.name).write_text(one.read_text().replace(str(installed), str(to)))
            (to / "bin" / one.name).chmod(0o755)
    shutil.copy2(installed / "pyvenv.cfg", to / "pyvenv.cfg")
    where = [str(to / "bin/python"), "-c", "import holdfast; print(holdfast.__file__)"]
    found = subprocess.check_output(where, env={}, cwd="/", text=True).strip()  # noqa: S603
    script = (to / "bin/holdfast").read_text().splitlines()[0]
    if not Path(found).is_relative_to(sources) or not script.startswith(f"#!{to}/bin/python"):
        raise CheckFailed(f"The copy in {sources.parent} would run the code in {found}, by {script}")


def run_tests(tree: Path, words: Sequence[str]) -> tuple[bool, str]:
    """Run tests in a copy; return whether they fail, and the first failure."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "HOLDFAST"))}
    given = {**kept, "TMPDIR": COPIES, "PATH": f"{tree}/.venv/bin:{kept['PATH']}"}
    command = [str(tree / ".venv/bin/python"), "-m", "pytest", *PYTEST, *words]
    with tempfile.TemporaryFile("w+") as output:
        # In a group of its own, so that what hangs can be ended with all that it started.
        done = subprocess.Popen(  # noqa: S603
            command, cwd=tree, env=given, stdout=output, stderr=output, start_new_session=True
        )
        try:
            code = done.wait(STAGE_SECONDS)
        except BaseException:
            os.killpg(done.pid, signal.SIGKILL)
            done.wait()
            raise
        output.seek(0)
        printed = output.read()
    first = FIRST_FAILED.search(printed)
    # With -x, pytest-xdist interrupts its session, so that it ends with 2 where pytest alone would with 1.
    if code == 1 or (code == 2 and first and "Interrupted: stopping after" in printed):
        return True, first[1] if first else ""
    if code != 0:
        raise CheckFailed(f"pytest ended with {code}:\n{printed[-3000:]}")
    return False, ""


def try_fault(fault: Fault, unchanged: Path, stages: Sequence[Stage]) -> dict[str, Any]:
    """Return the stage at which a fault is found, if any."""
    words: dict[Stage, list[str]] = {"feature": fault.tests, "commit": [], "full": ["-m", ""]}
    begun = time.monotonic()
    with copy_tree() as tree:
        (tree / SOURCES / fault.file).write_text(changed_text(tree, fault))
        for stage in stages:
            failed, test = run_tests(tree, words[stage])
            if failed:
                alone = ["-n", "0", "-m", "", test] if test else words[stage]
                if run_tests(unchanged, alone)[0]:
                    raise CheckFailed(f"{test} fails without the fault too")
                doubtful = not run_tests(tree, alone)[0]
                break
        else:
            stage, test, doubtful = None, "", False
    seconds = round(time.monotonic() - begun)
    told = {"id": fault.id, "found": stage, "seconds": seconds, "test": test, "doubtful": doubtful}
    return {**told, "tried": list(stages)}


def describe(done: dict[str, Any]) -> str:
    how = f"found by {done['found']}" if done["found"] else "SURVIVED"
    return f"{done['id']:44} {how:18} {done['seconds']:5} s  {done['test']}{' (doubtful)' * done['doubtful']}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only check the list, run no tests")
    parser.add_argument("--only", nargs="+", metavar="ID", help="only these faults")
    parser.add_argument("--full", action="store_true", help="test surviving faults with every test")
    parser.add_argument("--stage", choices=["feature"], help="only the tests named by each fault")
    parser.add_argument("--report", type=Path, help="JSON lines file to append to; faults in it are skipped")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that tests are ended and copies removed then, too
    faults = read_faults()
    if wrong := check_list(faults):
        print(*wrong, sep="\n", file=sys.stderr)
        return 2
    if unknown := {*(asked.only or ())} - {fault.id for fault in faults}:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    if asked.check:
        print(f"{len(faults)} faults, each of which applies once and compiles.")
        return 0
    stages: list[Stage] = (
        ["feature"] if asked.stage else ["feature", "commit", "full"] if asked.full else ["feature", "commit"]
    )
    lines = asked.report.read_text().splitlines() if asked.report and asked.report.exists() else []
    known = {one["id"]: one for one in map(json.loads, lines)}
    results, errors = [], 0
    with copy_tree() as unchanged:
        for fault in faults:
            if asked.only and fault.id not in asked.only:
                continue
            done = known.get(fault.id)
            if done is None or not (done["found"] or {*stages} <= {*done["tried"]}):
                try:
                    done = try_fault(fault, unchanged, stages)
                except (CheckFailed, subprocess.TimeoutExpired) as error:
                    errors += 1
                    print(f"{fault.id:44} ERROR OF THE CHECK: {error}", flush=True)
                    continue
                if asked.report:
                    with asked.report.open("a") as report:
                        report.write(json.dumps(done) + "\n")
            print(describe(done), flush=True)
            results.append(done)
    survivors = [done["id"] for done in results if not done["found"]]
    print(f"\n{len(results) - len(survivors)} of {len(results)} faults were found; {errors} could not be tried.")
    effects = {fault.id: fault.effect for fault in faults}
    for id in survivors:
        print(f"Survived: {id}: {effects[id]}")
    return 2 if errors else 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
