"""What comes out of a terminal, taken apart into prompts, echoes and the output of commands.

The shell marks where its prompt begins and ends and where a command begins, each by a character that nothing else
writes. So the echo of a command is told from its output for certain, and a prompt that comes late from one that says
that the command is over.
"""

import re

RUNS, PROMPT, READY = "\x1e", "\x1d", "\x1c"
_MARKS = re.compile(f"([{RUNS}{PROMPT}{READY}])")


class Screen:
    """`put` gets all that belongs on the screen, `tell` only what commands write."""

    def __init__(self, put, tell):
        self._put = put
        self._tell = tell
        self._echo = ""
        # What came since a command was sent and before it runs; none when nothing was sent.
        self._held = None
        self._runs = False

    def expect(self, command):
        """A command is about to be sent; it is shown as if it had been typed plainly."""
        self._echo, self._held = command, ""

    def take(self, text):
        for piece in _MARKS.split(text):
            if piece == RUNS:
                if self._held is not None:
                    self._put(f"{self._echo}\n")
                    self._held = None
                self._runs = True
            elif piece == PROMPT:
                # It never ran: what the shell said of it is all there is.
                if self._held:
                    self._put(self._held)
                self._held, self._runs = None, False
            elif piece == READY or not piece:
                pass
            elif self._held is not None:
                self._held += piece
            else:
                self._put(piece)
                if self._runs:
                    self._tell(piece)
