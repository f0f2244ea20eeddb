"""Operations: how they are declared, called and validated."""
