"""The terminal tool, in shells of our own."""

import os
import threading
from typing import ClassVar

from openhands.sdk.tool import ToolExecutor, register_tool
from openhands.tools.terminal import TerminalObservation, TerminalTool
from openhands.tools.terminal.metadata import CmdOutputMetadata
from openhands.tools.terminal.terminal.terminal_session import TerminalSession

from .shell import Shell, ShellEnded


class Commands(ToolExecutor):
    """Runs commands in one shell, and in another one when that has ended."""

    def __init__(self, work_dir, own_dir, env, tell):
        self._place = work_dir
        self._own_dir = own_dir
        self._env = env
        self._tell = tell
        self._session = None
        self._lock = threading.Lock()
        # Said to the model once, when what it knows of its shell is not so any more.
        self._news = ""

    def __call__(self, action, conversation=None):
        if action.reset:
            self._drop(self._session)
        session = self._begin()
        command = action.command.strip()
        news, self._news = self._news, ""
        try:
            is_sent = command and not action.is_input and (not session.is_running() or session.terminal.shows_prompt())
            if is_sent:
                session.terminal.until_ready()
                session.terminal.expect(command)
            done = session.execute(action)
            self._place = session._cwd or self._place
        except ShellEnded as ended:
            self._drop(session)
            done = self._ended(command, ended)
        if news:
            done = done.model_copy(update={"metadata": done.metadata.model_copy(update={"prefix": news})})
        return done

    def _begin(self):
        with self._lock:
            if self._session is None:
                place = self._place if os.path.isdir(self._place) else self._own_dir
                session = TerminalSession(Shell(place, self._own_dir, self._env, self._tell))
                session.initialize()
                self._session = session
            return self._session

    def _ended(self, command, ended):
        output = ended.output.removeprefix(command).lstrip("\n")
        suffix = f"\n[The shell ended with exit code {ended.code}; the next command has a new one.]"
        metadata = CmdOutputMetadata(exit_code=ended.code, working_dir=self._place, suffix=suffix)
        return TerminalObservation.from_text(command=command, text=output, exit_code=ended.code, metadata=metadata)

    def _drop(self, session, news=""):
        """Lets go of this one. Whoever comes late with it does not touch the next."""
        with self._lock:
            if session is None or session is not self._session:
                return
            self._session, self._news = None, news
        session.close()

    def interrupt(self):
        """Ends the shell with all that runs in it: what ignores signals would not end otherwise."""
        self._drop(self._session, "[An interrupt ended the shell; this is a new one, in the same directory.]\n")

    def close(self):
        self._drop(self._session)


class SteeredTerminal(TerminalTool):
    """OpenHands' terminal tool, with its name and words."""

    name: ClassVar[str] = "terminal"
    commands: ClassVar[Commands | None] = None

    @classmethod
    def create(cls, conv_state):
        return super().create(conv_state, executor=cls.commands)


def register(commands):
    """From now on the tool runs its commands there."""
    SteeredTerminal.commands = commands
    register_tool(SteeredTerminal.name, SteeredTerminal)
