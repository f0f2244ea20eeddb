"""What FTS5 knows of the texts it holds."""


def usual_length(block: bytes) -> float:
    """Words of a row on average, from FTS5's own record: how many rows, then how many words in each column."""
    numbers = _numbers(block)
    return sum(numbers[1:]) / numbers[0] if numbers and numbers[0] else 0.0


def _numbers(block: bytes) -> list[int]:
    """SQLite's numbers of variable length: seven bits a byte, the highest first, eight in a ninth."""
    found: list[int] = []
    value = length = 0
    for byte in block:
        length += 1
        value = value << 8 | byte if length == 9 else value << 7 | byte & 0x7F
        if byte < 0x80 or length == 9:
            found.append(value)
            value = length = 0
    return found
