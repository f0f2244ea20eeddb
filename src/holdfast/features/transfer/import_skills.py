"""Import skills and their versions."""

from typing import Any

from msgspec.structs import replace

from holdfast.features.skills import file_contents
from holdfast.features.skills import files as skill_files
from holdfast.features.skills import service as skill_service
from holdfast.features.skills.files import decode_content
from holdfast.features.skills.model import SKILL, SKILL_VERSION, Skill, skill_id, version_id
from holdfast.features.transfer import schema_v1
from holdfast.features.transfer.import_state import ImportState
from holdfast.features.transfer.model import Outcome
from holdfast.kernel.context import validate_agent_id
from holdfast.kernel.errors import Invalid, NotFound
from holdfast.kernel.records import validate


def import_skill_version(state: ImportState, raw: Any) -> Outcome:
    """Import a skill version. Its files must match its digest."""
    row, rest = state.read_row(schema_v1.SkillVersionRow, raw)
    contents = skill_files.validate_files((one.path, decode_content(one.content, one.encoding)) for one in row.files)
    version = skill_service.build_version(contents, None, validate.namespace(row.namespace), row.name)
    state.must_reach(version.namespace)
    if version.digest != row.digest:
        raise Invalid("digest: does not match the files", fields=["digest"])
    skill_service.reject_secrets(state.write.session, version.namespace, contents)
    times = {**state.read_times(row, row.created_at), "version": 1}
    version = replace(version, agent=_get_registrar(state, row.registered_by), signature=row.signature or "", **times)
    version = skill_service.ensure_signed(state.write, version)
    known = state.write.get(SKILL_VERSION, version.id)
    outcome: Outcome = "unchanged"
    if known is None or known.state == "deleted":
        file_contents.store_contents(state.write.session, {file.digest: contents[file.path] for file in version.files})
        skill_service.save_version(state.write, known, version, "import")
        outcome = "imported"
    return state.keep_extras("skill_versions", version.id, rest, outcome)


def import_skill(state: ImportState, raw: Any) -> Outcome:
    row, rest = state.read_row(schema_v1.SkillRow, raw)
    namespace = validate.namespace(row.namespace)
    state.must_reach(namespace)
    current = state.write.get(SKILL_VERSION, version_id(row.current))
    if current is None or (current.namespace, current.name) != (namespace, row.name):
        raise NotFound(f"current: unknown version of {row.name!r}.", fields=["current"])
    skill = Skill(
        id=skill_id(namespace, row.name),
        namespace=namespace,
        name=row.name,
        current=current.id,
        agent=_get_registrar(state, row.registered_by),
        **state.read_times(row, row.created_at),
    )
    known = state.write.get(SKILL, skill.id)
    return state.keep_extras("skills", skill.id, rest, state.put_record(SKILL, known, state.set_times(skill)))


def _get_registrar(state: ImportState, agent: str) -> str:
    """Who registered a skill: from the file if it is trusted, else the importer."""
    return validate_agent_id(agent, "registered_by") if state.options.trust_source else state.ctx.caller.agent
