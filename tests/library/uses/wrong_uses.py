"""Uses of the library that every type checker refuses, each on a line that ends with `# wrong`."""

import holdfast


def use_operations(hold: holdfast.Holdfast) -> None:
    hold.recal("deploy")  # wrong
    hold.store(titel="Deploy day", content="We deploy on Tuesdays.")  # wrong
    hold.store("Deploy day")  # wrong
    hold.store("Deploy day", "We deploy on Tuesdays.", "long")  # wrong
    hold.store("Deploy day", "We deploy on Tuesdays.", tier="forever")  # wrong
    hold.store("Deploy day", "We deploy on Tuesdays.", tags="deploy")  # wrong
    hold.recall("deploy", since=2026)  # wrong
    hold.conversation_say([{"role": "user"}], channel="cli")  # wrong


def use_results(hold: holdfast.Holdfast) -> None:
    stored = hold.store("Deploy day", "We deploy on Tuesdays.")
    print(stored.titel)  # wrong
    print(stored.created_at[:10])  # wrong
    print(stored.expires_at.year)  # wrong
    stored.title = "Other"  # wrong
    for memory in hold.recall("deploy"):
        print(memory.missing)  # wrong
    print(hold.stats()[0])  # wrong


async def use_async(hold: holdfast.AsyncHoldfast) -> None:
    print(hold.recall("deploy").memories)  # wrong
    print((await hold.recall("deploy")).missing)  # wrong
