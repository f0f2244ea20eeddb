"""Edge cases of the change feed."""

import holdfast


def test_a_cursor_past_the_end_continues_from_the_end(hold: holdfast.Holdfast) -> None:
    hold.store("First", "one")
    page = hold.events(after=500)
    assert (page.events, page.next) == ([], 1)
    hold.store("Second", "two")
    assert [event.seq for event in hold.events(after=page.next).events] == [2]
