"""Importers of other programs' data: chats, transcripts, mail, notes."""
