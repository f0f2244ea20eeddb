"""Edge cases of the change feed."""

import holdfast


def test_a_cursor_past_the_end_continues_from_the_end(ctx: holdfast.Holdfast) -> None:
    ctx.store("First", "one")
    page = ctx.events(after=500)
    assert (page.events, page.next) == ([], 1)
    ctx.store("Second", "two")
    assert [event.seq for event in ctx.events(after=page.next).events] == [2]
