"""A person with data of every kind."""

import holdfast


def tell_of(hold: holdfast.Holdfast, who: str, word: str) -> None:
    """Store data of every kind about a person, with a searchable word where possible."""
    hold.fact_set(key=f"{word} city", value=f"lives in {word}", principal=who)
    hold.conversation_say(turns=[{"role": "user", "content": f"I am from {word}."}], principal=who, channel="cli")
    hold.task_add(title=f"Call {word}", due_at="2020-01-01", principal=who)
    hold.usage_record(model="m", input_tokens=1, principal=who)
    hold.run_open(topology=word, phases=["one"], principal=who)
    hold.session_keep(session_id=word, provider="p", principal=who)
    hold.lesson_add(rule=f"Ask {word} first, before all others.", domain="people", principal=who)
    hold.outcome_record(score=1, domain="people", what=f"{word} was glad", principal=who)
    hold.budget_set(principal=who, tokens=5)
    hold.interaction_record(status="denied", reason=f"{word} may not", principal=who, name=word)
