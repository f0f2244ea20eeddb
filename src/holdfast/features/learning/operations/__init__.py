"""Operations of the learning feature."""
