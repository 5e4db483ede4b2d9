"""The protocol's methods."""

import asyncio
import gc
import os
import sys
import traceback

from . import settings
from .wire import FAILED, METHOD_NOT_FOUND, Refused, Wire

PROTOCOL_VERSION = 1
# What the runtime takes for a program that has to be installed.
NOT_INSTALLED = -32001
PACKAGE = "openhands-agent-server"


def main():
    said, commands = settings.take()
    asyncio.run(Server(said, commands).serve())


class Server:
    def __init__(self, said, commands):
        self._said = said
        self._commands = commands
        self._session = None
        self._tasks = set()

    async def serve(self):
        self._wire = Wire(asyncio.get_running_loop())
        lines = self._wire.lines()
        while (message := await lines.get()) is not None:
            if "method" not in message:
                self._wire.answered(message)
                continue
            task = asyncio.ensure_future(self._take(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        # Nobody is there any more. Threads of tools may still run, and are not waited for.
        if self._session is not None:
            self._session.end()
        os._exit(0)

    async def _take(self, message):
        number, method = message.get("id"), message["method"]
        try:
            result = await self._do(method, message.get("params") or {})
        except Exception as error:
            traceback.print_exception(type(error), error, error.__traceback__)
            if number is not None:
                self._wire.refuse(number, error if isinstance(error, Refused) else Refused(FAILED, repr(error)))
        else:
            if number is not None:
                self._wire.answer(number, result)

    async def _do(self, method, params):
        if method == "initialize":
            return introduction()
        if method == "session/new":
            return {"sessionId": await self._open(params, None)}
        if method == "session/load":
            await self._open(params, params["sessionId"])
            return {}
        if method == "session/prompt":
            texts = [part.get("text", "") for part in params["prompt"]]
            return await self._session.prompt("\n\n".join(texts))
        if method == "session/cancel":
            return await self._session.cancel()
        raise Refused(METHOD_NOT_FOUND, f"{method} is not known here")

    async def _open(self, params, name):
        if self._session is not None:
            await self._session.close()
            self._session = None
        # OpenHands takes seconds to be read in.
        opened = await asyncio.to_thread(open_session, self._said, self._commands, params["cwd"], name)
        self._session = opened
        opened.attach(self._wire)
        return opened.name


def introduction():
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version(PACKAGE)
    except PackageNotFoundError:
        python = ".".join(map(str, sys.version_info[:3]))
        raise Refused(NOT_INSTALLED, f"Python {python} has no {PACKAGE}") from None
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "agentCapabilities": {"loadSession": True},
        "agentInfo": {"name": PACKAGE, "version": found},
    }


def open_session(said, commands, cwd, name):
    # What is read in stays: looking for what of it could be dropped is a fifth of the time, and finds nothing.
    gc.disable()
    try:
        from .session import Session
    except ImportError as error:
        raise Refused(NOT_INSTALLED, str(error)) from error
    finally:
        gc.freeze()
        gc.enable()
    return Session(said, commands, cwd, name)
