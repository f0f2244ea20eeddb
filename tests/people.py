"""A person with data of every kind."""

import holdfast


def tell_of(ctx: holdfast.Holdfast, who: str, word: str) -> None:
    """Store data of every kind about a person, with a searchable word where possible."""
    ctx.fact_set(key=f"{word} city", value=f"lives in {word}", principal=who)
    ctx.conversation_say(turns=[{"role": "user", "content": f"I am from {word}."}], principal=who, channel="cli")
    ctx.task_add(title=f"Call {word}", due_at="2020-01-01", principal=who)
    ctx.usage_record(model="m", input_tokens=1, principal=who)
    ctx.run_open(topology=word, phases=["one"], principal=who)
    ctx.session_keep(session_id=word, provider="p", principal=who)
    ctx.lesson_add(rule=f"Ask {word} first, before all others.", domain="people", principal=who)
    ctx.outcome_record(score=1, domain="people", what=f"{word} was glad", principal=who)
    ctx.budget_set(principal=who, tokens=5)
    ctx.interaction_record(status="denied", reason=f"{word} may not", principal=who, name=word)
