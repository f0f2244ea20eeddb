"""Tampering with stored skills is detected."""

from contextlib import suppress

import pytest
from skill_samples import FILES, TEXT

import holdfast
from holdfast.features.history import service as history
from holdfast.kernel.errors import StoreDamaged


class Rollback(Exception):
    """Rolls a transaction back."""


def test_verify_finds_tampering_with_a_skill(hold: holdfast.Holdfast) -> None:
    hold.skill_register(inline_skill=TEXT, files=FILES)
    assert hold.verify().intact
    edits = [
        "update skill_piece set content = (select max(content) from skill_piece)",
        "delete from skill_piece where digest = (select min(digest) from skill_piece)",
        "update skill_version set description = 'Does something else.'",
        "update skill_version set files = '[]'",
        "update skill_version set signature ="
        " case when signature like 'ff%' then '00' else 'ff' end || substr(signature, 3)",
        "update skill set name = 'other'",
        "insert into skill_piece (digest, piece, content) select 'x', 0, content from skill_piece limit 1",
    ]
    for edit in edits:
        with suppress(Rollback), hold.ctx.store.transaction() as session:
            session.execute_sql(edit, [{}])
            assert history.verify(hold.ctx, session), edit
            raise Rollback
    assert hold.verify().intact


def test_a_file_that_differs_from_its_digest_is_an_error(hold: holdfast.Holdfast) -> None:
    made = hold.skill_register(inline_skill=TEXT, files=FILES)
    with hold.ctx.store.transaction() as session:
        session.execute_sql("update skill_piece set content = (select max(content) from skill_piece)", [{}])
    with pytest.raises(StoreDamaged):
        hold.skill_export(made.id)
