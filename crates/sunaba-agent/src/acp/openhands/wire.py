"""JSON-RPC, one object a line, on standard input and output."""

import asyncio
import json
import os
import sys
import threading

METHOD_NOT_FOUND = -32601
FAILED = -32603


class Refused(Exception):
    """A request that cannot be done, with the number that says why."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Wire:
    """Reads lines in a thread of its own; may be written to from any."""

    def __init__(self, loop):
        self._loop = loop
        self._lock = threading.Lock()
        self._asked = {}
        self._next = 0
        # Whatever else is printed is not to get between the lines.
        self._out = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)

    def lines(self):
        """A queue of what is said; the last is None."""
        queue = asyncio.Queue()

        def read():
            for line in sys.stdin.buffer:
                if line.strip():
                    self._loop.call_soon_threadsafe(queue.put_nowait, json.loads(line))
            self._loop.call_soon_threadsafe(queue.put_nowait, None)

        threading.Thread(target=read, daemon=True).start()
        return queue

    def send(self, message):
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        with self._lock:
            self._out.write(line)
            self._out.flush()

    def notify(self, method, params):
        self.send({"method": method, "params": params})

    def answer(self, number, result):
        self.send({"id": number, "result": result})

    def refuse(self, number, error):
        self.send({"id": number, "error": {"code": error.code, "message": str(error)}})

    async def ask(self, method, params):
        """Asks and waits for the answer."""
        number, self._next = f"o{self._next}", self._next + 1
        answered = self._asked[number] = self._loop.create_future()
        try:
            self.send({"id": number, "method": method, "params": params})
            return await answered
        finally:
            del self._asked[number]

    def answered(self, message):
        """Somebody answers what was asked here."""
        asked = self._asked.get(message.get("id"))
        if asked is None or asked.done():
            return
        if "error" in message:
            asked.set_exception(Refused(METHOD_NOT_FOUND, str(message["error"])))
        else:
            asked.set_result(message.get("result") or {})
