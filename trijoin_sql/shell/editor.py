"""The line editor: prompt_toolkit with a history file, completion, colours; Enter runs only what is complete."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import completion_is_selected, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import split_lines
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.lexers import Lexer

from ..explain.sql_text import tokens
from .completion import Names, suggestions
from .entered import is_complete

PROMPT, MORE = "trijoin> ", "      -> "


class Editor:
    """Reads what a user types at a terminal.

    Parameters
    ----------
    names
        What can be completed.
    history
        The file that keeps what was entered, from one shell to the next; None for none.
    """

    def __init__(self, names: Names, history: Path | None) -> None:
        self._session: PromptSession[str] = PromptSession(
            message=PROMPT,
            prompt_continuation=lambda width, line, wrapped: MORE,
            multiline=True,
            history=_history(history),
            completer=_Completer(names),
            complete_while_typing=True,
            auto_suggest=AutoSuggestFromHistory(),
            lexer=_Colours(),
            key_bindings=_keys(),
            enable_open_in_editor=True,
        )

    def read(self) -> str:
        """Return the next input.

        Raises
        ------
        KeyboardInterrupt
            Ctrl-C.
        EOFError
            Ctrl-D.
        """
        return self._session.prompt()


def _history(path: Path | None) -> FileHistory | InMemoryHistory:
    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)  # statements may hold passwords
    except OSError:  # a home that cannot be written to is no reason to have no shell
        return InMemoryHistory()
    return FileHistory(str(path))


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=has_focus("DEFAULT_BUFFER") & ~completion_is_selected)
    def _enter(event: Any) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @keys.add("enter", filter=has_focus("DEFAULT_BUFFER") & completion_is_selected)
    def _choose(event: Any) -> None:
        event.current_buffer.complete_state = None

    return keys


class _Completer(Completer):
    def __init__(self, names: Names) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        for text, what, length in suggestions(document.text, document.cursor_position, self._names):
            yield Completion(text, -length, display_meta=what)


class _Colours(Lexer):
    """Colours what is typed as the page of `explain` does, in prompt_toolkit's own colours."""

    _STYLES = MappingProxyType(
        {
            "comment": "class:pygments.comment",
            "string": "class:pygments.literal.string",
            "number": "class:pygments.literal.number",
            "keyword": "class:pygments.keyword",
            "operator": "class:pygments.operator",
        }
    )

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        coloured: StyleAndTextTuples = [(self._STYLES.get(one.kind, ""), one.text) for one in tokens(document.text)]
        lines = list(split_lines(coloured))
        return lambda number: lines[number] if number < len(lines) else []
