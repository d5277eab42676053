"""Settings that are true or false."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import InvalidSettingError

#: Returns the value of a session's setting, None where it is not set.
Setting = Callable[[str], "str | None"]


def flag(get: Setting, name: str, *, default: bool) -> bool:
    """Return a setting of ours that is true or false.

    Raises
    ------
    InvalidSettingError
        It is neither.
    """
    text = get(name)
    known = {"true": True, "false": False}
    if text is None or text.strip().lower() in known:
        return default if text is None else known[text.strip().lower()]
    raise InvalidSettingError(name, text, "it takes true or false")
