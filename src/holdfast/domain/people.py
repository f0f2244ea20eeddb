"""What is known of somebody lies in a namespace of their own."""

from urllib.parse import quote

ROOT = "people"
FORGOTTEN = f"{ROOT}/forgotten"
"""Where what remains of a forgotten person's memories lies: an id each, and that it is deleted."""


def place_of(name: str) -> str:
    """The namespace of a person or agent, by their name; characters that no namespace has are written as %XX."""
    return f"{ROOT}/{quote(name, safe=':@+~!$&,;=()')}"
