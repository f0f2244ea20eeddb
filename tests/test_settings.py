"""Settings: defaults < file < environment < flags; invalid ones are rejected by name."""

from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.kernel.errors import InvalidSetting
from holdfast.kernel.records.validate import Lifetimes
from holdfast.settings import DEPRECATED_NAMES, Settings, config_file, load


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def test_no_setting_is_required() -> None:
    assert load({}, {}) == Settings()


def test_a_later_source_wins(file: Path) -> None:
    file.write_text('port = 1\nhost = "file"\nnamespace = "file"\nmcp_profile = "file"')
    environment = {"HOLDFAST_CONFIG": str(file), "HOLDFAST_HOST": "environment", "HOLDFAST_NAMESPACE": "environment"}
    found = load({"namespace": "flag", "db": None}, environment)
    assert (found.port, found.host, found.namespace, found.mcp_profile) == (1, "environment", "flag", "file")
    assert found.timeout_secs == Settings().timeout_secs


def test_environment_variables_are_typed() -> None:
    found = load({}, {"HOLDFAST_PORT": "80", "HOLDFAST_TIMEOUT_SECS": "1.5", "HOLDFAST_ALLOWED_HOSTS": "a.example,b"})
    assert (found.port, found.timeout_secs, found.allowed_hosts) == (80, 1.5, ("a.example", "b"))


def test_the_default_tier_is_long_until_set() -> None:
    assert load({}, {}).default_tier == "long"
    assert load({}, {"HOLDFAST_DEFAULT_TIER": "short"}).default_tier == "short"


def test_an_empty_variable_counts_as_unset() -> None:
    assert load({}, {"HOLDFAST_API_KEY": "", "HOLDFAST_PORT": ""}) == Settings()


def test_lifetimes_are_a_table_of_the_file(file: Path) -> None:
    file.write_text("[ttl]\nshort = 60\npromote_after = 0")
    assert load({}, {"HOLDFAST_CONFIG": str(file)}).ttl == Lifetimes(short=60, promote_after=0)


BAD_FILES = {
    "unknown": ("prot = 1", "prot"),
    "type": ('port = "many"', "port"),
    "huge": ("port = 65536", "port"),
    "negative": ("port = -1", "port"),
    "ttl": ("[ttl]\nmedium = 5", "medium"),
    "ttl-type": ('[ttl]\nmid = "long"', "mid"),
    "timeout": ("timeout_secs = 0", "timeout_secs"),
    "timeout-nan": ("timeout_secs = nan", "timeout_secs"),
    "body": ("body_limit = 1", "body_limit"),
    "syntax": ("port =", "config.toml"),
    "yaml": ("!!python/object:os.system", "config.toml"),
}


@pytest.mark.parametrize(("text", "named"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_an_unusable_file_is_refused_and_the_setting_named(file: Path, text: str, named: str) -> None:
    file.write_text(text)
    with pytest.raises(InvalidSetting) as refused:
        load({}, {"HOLDFAST_CONFIG": str(file)})
    assert named in refused.value.message


def test_a_file_that_is_not_text_is_refused(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidSetting):
        load({}, {"HOLDFAST_CONFIG": str(file)})


def test_an_explicitly_named_file_must_exist_and_a_default_one_need_not(file: Path) -> None:
    with pytest.raises(InvalidSetting):
        load({}, {"HOLDFAST_CONFIG": str(file)})
    assert load({}, {"XDG_CONFIG_HOME": str(file.parent)}) == Settings()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HOLDFAST_PORT", "http"),
        ("HOLDFAST_PORT", "99999"),
        ("HOLDFAST_TIMEOUT_SECS", "soon"),
        ("HOLDFAST_PROT", "1"),
        ("HOLDFAST_DEFAULT_TIER", "eternal"),
    ],
)
def test_an_unusable_variable_is_refused_and_named(variable: str, value: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        load({}, {variable: value})
    assert variable.removeprefix("HOLDFAST_").lower() in refused.value.message.lower()


def test_a_refusal_does_not_repeat_a_secret() -> None:
    with pytest.raises(InvalidSetting) as refused:
        load({}, {"HOLDFAST_API_KEY": "hunter2", "HOLDFAST_PORT": "hunter3"})
    assert "hunter" not in refused.value.message


@pytest.mark.parametrize(
    "db",
    [
        "postgresql://me:hunter2@host/memory",
        "postgresql://host/memory?password=hunter2",
        "postgresql:/me:hunter2",
        " Postgres:hunter2",
        "host=h password=hunter2",
        "mysql://hunter2",
    ],
)
def test_displayed_settings_contain_no_secret(db: str) -> None:
    settings = Settings(db=db, api_key="hunter3", mcp_key="hunter4", namespace="team")
    for shown in (repr(settings), str(settings), f"{[settings]}", str(list(settings.__rich_repr__()))):
        assert "hunter" not in shown
        assert "team" in shown


@pytest.mark.parametrize("db", [None, "memory.db", "/a b/memory.db", "sqlite:///a/memory.db"])
def test_displayed_settings_show_a_file_and_the_absence_of_a_key(db: str | None) -> None:
    assert repr(Settings(db=db)).startswith(f"Settings(db={db!r}, agent_id=None, ")
    assert "api_key=None, mcp_key=None" in repr(Settings(db=db))


def test_unrelated_variables_are_ignored() -> None:
    assert load({}, {"PATH": "/bin", "HOLDFASTER": "1", "holdfast_port": "1"}) == Settings()


@pytest.mark.parametrize(
    ("environment", "where"),
    [
        ({"HOLDFAST_CONFIG": "/a/b.toml", "HOME": "/home/ada"}, "/a/b.toml"),
        ({"XDG_CONFIG_HOME": "/x", "HOME": "/home/ada"}, "/x/holdfast/config.toml"),
        ({"HOME": "/home/ada"}, "/home/ada/.config/holdfast/config.toml"),
        ({}, None),
    ],
    ids=["named", "xdg", "home", "nowhere"],
)
def test_the_settings_file_is_in_the_configuration_folder_of_the_platform(
    environment: dict[str, str], where: Any
) -> None:
    found = config_file(environment)
    assert (None if found is None else str(found)) == where


FORMER = {
    "audit": "denied",
    "boot_budget": 700,
    "hook_budget": 300,
    "keep_recalls": 1,
    "keep_runs": 2,
    "keep_task_runs": 3,
    "keep_usage": 4,
    "key": "secret",
    "profile": "full",
}
"""Each former name of a setting, with a value that is not the default."""


def expect_renamed(found: Settings) -> None:
    assert found == Settings(**{DEPRECATED_NAMES[name]: value for name, value in FORMER.items()})


def test_every_former_name_is_tested() -> None:
    assert FORMER.keys() == DEPRECATED_NAMES.keys()


def test_former_names_in_the_file_work_with_one_note(file: Path) -> None:
    file.write_text("\n".join(f"{name} = {value!r}" for name, value in FORMER.items()))
    notes: list[str] = []
    expect_renamed(load({}, {"HOLDFAST_CONFIG": str(file)}, on_deprecated=notes.append))
    (note,) = notes
    assert all(f"`{old}` in {file} is deprecated; use `{new}`" in note for old, new in DEPRECATED_NAMES.items())
    assert "\n" not in note


def test_former_variables_work_with_one_note() -> None:
    notes: list[str] = []
    environment = {f"HOLDFAST_{name.upper()}": str(value) for name, value in FORMER.items()}
    expect_renamed(load({}, environment, on_deprecated=notes.append))
    (note,) = notes
    assert "HOLDFAST_KEEP_RUNS is deprecated; use HOLDFAST_RUN_RETENTION_DAYS." in note
    assert "secret" not in note


def test_former_names_of_flags_warn_at_the_caller() -> None:
    with pytest.warns(DeprecationWarning, match="`audit` is deprecated; use `access_log`") as warned:
        expect_renamed(load(FORMER, {}))
    assert [Path(one.filename).name for one in warned] == [Path(__file__).name]


def test_former_keywords_of_the_constructor_warn_at_the_caller() -> None:
    with pytest.warns(DeprecationWarning, match="`key` is deprecated; use `mcp_key`") as warned:
        expect_renamed(Settings(**FORMER))
    assert [Path(one.filename).name for one in warned] == [Path(__file__).name]


def test_an_open_store_follows_a_former_name_and_warns_at_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_KEEP_RECALLS", "7")
    monkeypatch.setenv("HOLDFAST_EMBEDDER", "none")
    expected = pytest.warns(DeprecationWarning, match="HOLDFAST_KEEP_RECALLS is deprecated")
    with expected as warned, holdfast.open(str(tmp_path / "memory.db")) as opened:
        assert opened.ctx.recall_retention_days == 7
    assert [Path(one.filename).name for one in warned] == [Path(__file__).name]


def test_current_names_do_not_warn(recwarn: pytest.WarningsRecorder) -> None:
    load({"access_log": "all"}, {"HOLDFAST_MCP_KEY": "secret", "HOLDFAST_KEY": ""})
    Settings(run_retention_days=1)
    assert not list(recwarn)


@pytest.mark.parametrize(("old", "new"), DEPRECATED_NAMES.items())
def test_a_former_name_beside_its_new_name_is_refused(file: Path, old: str, new: str) -> None:
    value = FORMER[old]
    file.write_text(f"{old} = {value!r}\n{new} = {value!r}")
    twice = {old: value, new: value}
    variables = {f"HOLDFAST_{name.upper()}": str(value) for name in twice}
    for attempt in (
        lambda: load({}, {"HOLDFAST_CONFIG": str(file)}),
        lambda: load({}, variables),
        lambda: load(twice, {}),
        lambda: Settings(**twice),
    ):
        with pytest.raises(InvalidSetting, match="are the same setting; remove") as refused:
            attempt()
        assert refused.value.code == "MISCONFIGURED"
        assert old in refused.value.message.lower()
        assert new in refused.value.message.lower()


def test_a_later_source_wins_under_either_name(file: Path) -> None:
    file.write_text('keep_runs = 1\nmcp_profile = "full"')
    environment = {"HOLDFAST_CONFIG": str(file), "HOLDFAST_RUN_RETENTION_DAYS": "2", "HOLDFAST_PROFILE": "graph"}
    found = load({}, environment, on_deprecated=lambda note: None)
    assert (found.run_retention_days, found.mcp_profile) == (2, "graph")
