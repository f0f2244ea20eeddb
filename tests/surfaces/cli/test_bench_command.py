"""`holdfast admin bench` runs the benchmarks of a checkout; an installed package explains how to get them."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import holdfast
from holdfast.surfaces.bench.clients import holdfast_command

PACKAGE = Path(holdfast.__file__).parent
CHECKOUT = PACKAGE.parents[1]
NO_DATABASE = ("--postgres", "postgresql://nobody@127.0.0.1:1/none")
"""The benchmarks refuse to begin with this one, so it shows that they run without measuring anything."""
QUESTIONS = [
    {
        "sample_id": "port",
        "notes": [{"id": "N1", "title": "Port", "content": "We listen on 8080."}],
        "qa": [{"question": "On which port do we listen?", "evidence": ["N1"], "category": "single"}],
    }
]


@pytest.fixture(scope="module")
def site_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with exactly the content of a wheel."""
    site = tmp_path_factory.mktemp("environment") / "lib" / "site-packages"
    shutil.copytree(PACKAGE, site / "holdfast", ignore=shutil.ignore_patterns("__pycache__"))
    return site


def run_bench(folder: Path, *words: str, path: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))}
    command = holdfast_command("bench", *words)
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)


def test_an_installed_package_explains_how_to_get_the_benchmarks(site_packages: Path, tmp_path: Path) -> None:
    done = run_bench(tmp_path, "--quick", path=(site_packages,))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: `holdfast admin bench` requires the benchmarks")
    assert "clone the Holdfast repository and run `make bench`" in done.stderr
    assert done.stderr.endswith("[NOT_FOUND]\n")
    assert list(tmp_path.iterdir()) == []


def test_the_error_has_the_common_json_shape(site_packages: Path, tmp_path: Path) -> None:
    done = run_bench(tmp_path, "--json", path=(site_packages,))
    assert (done.returncode, done.stdout, json.loads(done.stderr)["code"]) == (1, "", "NOT_FOUND")


def test_a_foreign_package_called_benchmarks_is_not_imported(site_packages: Path, tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").write_text("raise SystemExit('imported')")
    done = run_bench(tmp_path, "--json", path=(site_packages, tmp_path))
    assert json.loads(done.stderr)["code"] == "NOT_FOUND"


@pytest.mark.parametrize("is_installed", [True, False], ids=["importable", "beside the source"])
def test_the_benchmarks_of_a_checkout_run_from_any_folder(
    is_installed: bool, site_packages: Path, tmp_path: Path
) -> None:
    path = (site_packages, CHECKOUT) if is_installed else (PACKAGE.parent,)
    done = run_bench(tmp_path, *NO_DATABASE, "--json", path=path)
    assert json.loads(done.stderr)["code"] == "STORE_UNREACHABLE"


def test_an_installed_package_measures_recall(site_packages: Path, tmp_path: Path) -> None:
    (tmp_path / "questions.json").write_text(json.dumps(QUESTIONS))
    done = run_bench(tmp_path, "quality", "questions.json", "--json", path=(site_packages,))
    assert (json.loads(done.stdout)["overall"]["any_1"], done.stderr) == (1.0, "")


@pytest.mark.full
def test_an_installed_package_includes_its_own_questions_and_prompts(site_packages: Path, tmp_path: Path) -> None:
    quality = run_bench(tmp_path, "quality", "--limit-questions", "5", "--json", path=(site_packages,))
    firing = run_bench(tmp_path, "firing", "--json", path=(site_packages,))
    assert json.loads(quality.stdout)["overall"]["questions"] == 5
    assert json.loads(firing.stdout)["relevant"] > 0
