"""The words of Athena's SQL, in lower case: words.yml has them, with their sources."""

from __future__ import annotations

from pathlib import Path

import yaml

_WORDS: dict[str, str] = yaml.safe_load(Path(__file__).with_suffix(".yml").read_text(encoding="utf-8"))
FUNCTIONS, NO_CALLS, RESERVED = (frozenset(_WORDS[name].split()) for name in ("functions", "no_calls", "reserved"))
