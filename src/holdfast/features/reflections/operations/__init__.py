"""Operations, by noun."""
