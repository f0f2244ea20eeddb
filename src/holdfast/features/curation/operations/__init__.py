"""Operations of the curation feature."""
