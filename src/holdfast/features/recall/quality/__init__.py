"""How well recall finds: questions with known answers, asked through a client and judged."""
