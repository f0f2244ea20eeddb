"""The former name of `holdfast.integrations.transcripts`."""

from holdfast.integrations.transcripts import Transcript, TranscriptTurn, read_transcript

__all__ = ["Transcript", "TranscriptTurn", "read_transcript"]
