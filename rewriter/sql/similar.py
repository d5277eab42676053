"""Words that were probably meant. It loads nothing, for the command line answers `--help` at once."""

from __future__ import annotations

from difflib import get_close_matches


def close(word: str, known: list[str] | tuple[str, ...], cutoff: float = 0.6) -> str | None:
    """Return the known word that is most similar to a word, None if none is."""
    lowered = {name.lower(): name for name in reversed(known)}
    found = get_close_matches(word.lower(), lowered, 1, cutoff)
    return lowered[found[0]] if found else None


def did_you_mean(word: str, known: list[str] | tuple[str, ...]) -> str:
    """Return a hint: the word that was probably meant, else all known words."""
    best = close(word, known)
    if best:
        return f"did you mean {best}?"
    return f"there is {', '.join(known)}" if known else "there is none"
