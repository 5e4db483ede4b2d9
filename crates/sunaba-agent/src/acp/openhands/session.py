"""One conversation: what is said to it, and its turns."""

import asyncio
import collections
import os
import uuid

from openhands.sdk import LocalConversation
from openhands.sdk.conversation.state import ConversationExecutionStatus as Status
from openhands.sdk.conversation.state import ConversationState
from openhands.sdk.event import LLMConvertibleEvent
from openhands.sdk.event.llm_convertible.observation import UserRejectObservation
from openhands.sdk.security.confirmation_policy import AlwaysConfirm, NeverConfirm

from . import terminal
from .agent import make_agent
from .tell import Teller, changes_something, described
from .wire import FAILED, Refused

KEPT = "conversations"
# The runtime bounds the turns.
STEPS_MAX = 1_000_000
NOT_DONE = "the program was ended before this was done; whether it has done anything is not known"
CHOICES = [{"optionId": "allow", "name": "Allow", "kind": "allow_once"},
           {"optionId": "reject", "name": "Reject", "kind": "reject_once"}]


class Session:
    def __init__(self, said, commands, cwd, name):
        self.name = name or str(uuid.uuid4())
        self._wire = None
        self._teller = Teller(self._update)
        self._commands = terminal.Commands(cwd, said["dir"], commands, self._teller.written)
        terminal.register(self._commands)
        self._conversation = LocalConversation(
            agent=make_agent(said, lambda _try, _all, error: self._teller.tried_again(error)),
            workspace=cwd, persistence_dir=os.path.join(said["dir"], KEPT), conversation_id=uuid.UUID(self.name),
            callbacks=[self._teller.event, self._watch], token_callbacks=[self._teller.token],
            visualizer=None, delete_on_close=False, max_iteration_per_run=STEPS_MAX,
            profile_store_dir=os.path.join(said["dir"], "profiles"),
        )
        self._state = self._conversation.state
        self._conversation.set_confirmation_policy(NeverConfirm() if said["mode"] == "bypass" else AlwaysConfirm())
        catch_up(self._conversation)
        self._work = None
        self._waiting = []
        self._unsaid = collections.deque()
        self._is_cancelled = False
        self._speaking = asyncio.Lock()
        self._saying = set()
        # Unset while calls wait to be allowed: what is said then comes after their results.
        self._may_speak = asyncio.Event()
        self._may_speak.set()

    def attach(self, wire):
        self._wire = wire
        self._loop = asyncio.get_running_loop()

    def _update(self, update):
        if self._wire is not None:
            self._wire.notify("session/update", {"sessionId": self.name, "update": update})

    def _watch(self, _event):
        if self._wire is not None and not self._teller.has_open_calls():
            self._loop.call_soon_threadsafe(self._may_speak.set)

    async def prompt(self, text):
        """Says something; the answer comes when everything is done that was asked for until then."""
        answered = asyncio.get_running_loop().create_future()
        self._waiting.append(answered)
        self._unsaid.append(text)
        if self._work is None:
            self._work = asyncio.ensure_future(self._work_on())
        else:
            saying = asyncio.ensure_future(self._all_is_said())
            self._saying.add(saying)
            saying.add_done_callback(self._saying.discard)
        return await answered

    async def _all_is_said(self):
        """In the order of the prompts, and all that there are at once."""
        while self._unsaid or self._speaking.locked():
            async with self._speaking:
                await self._may_speak.wait()
                await asyncio.to_thread(self._speak)

    def _speak(self):
        """Whoever has the state's lock waits until the step that runs is over; so this is in a thread of its own."""
        with self._state:
            while self._unsaid:
                self._conversation.send_message(self._unsaid.popleft())

    async def _work_on(self):
        """Works until there is nothing more to do, and answers all prompts."""
        before, result, error = self._used(), {"stopReason": "end_turn"}, None
        try:
            await self._all_is_said()
            await self._take_turns()
        except Refused as refused:
            error = refused
        except Exception as failed:
            error = Refused(*reason(failed))
        if self._is_cancelled:
            result, error = {"stopReason": "cancelled"}, None
            # Whoever stopped it says it again.
            self._unsaid.clear()
        used = {name: count - before[name] for name, count in self._used().items()}
        waiting, self._waiting, self._work, self._is_cancelled = self._waiting, [], None, False
        for number, answered in enumerate(waiting):
            if error is not None:
                answered.set_exception(error)
            else:
                answered.set_result({**result, "usage": used} if number == 0 else result)

    async def _take_turns(self):
        while not self._is_cancelled:
            await self._conversation.arun()
            match self._state.execution_status:
                case Status.WAITING_FOR_CONFIRMATION if not self._is_cancelled:
                    await self._ask()
                    if self._may_speak.is_set():
                        await self._all_is_said()
                    continue
                case Status.STUCK:
                    raise Refused(FAILED, "OpenHands finds itself doing the same thing again and again")
            if not self._is_cancelled:
                await self._all_is_said()
            if self._state.execution_status is not Status.IDLE:
                return

    async def _ask(self):
        """Asks for each call that waits; those that are not allowed have that for their result."""
        self._may_speak.clear()
        pending = ConversationState.get_unmatched_actions(self._state.active_branch())
        for call in pending:
            if self._is_cancelled or not changes_something(call):
                continue
            self._asking = asyncio.ensure_future(self._wire.ask("session/request_permission", {
                "sessionId": self.name, "toolCall": described(call), "options": CHOICES}))
            try:
                outcome = (await self._asking).get("outcome", {})
            except asyncio.CancelledError:
                break
            finally:
                self._asking = None
            if outcome.get("optionId") != "allow":
                await asyncio.to_thread(self._conversation._on_event_with_state_lock, UserRejectObservation(
                    action_id=call.id, tool_name=call.tool_name, tool_call_id=call.tool_call_id,
                    rejection_reason="it was not allowed"))
        if self._is_cancelled:
            self._conversation.reject_pending_actions("it was interrupted")
            self._may_speak.set()

    _asking = None

    async def cancel(self):
        """Ends the call to the model, or the command, that runs."""
        if self._work is not None:
            self._is_cancelled = True
            if self._asking is not None:
                self._asking.cancel()
            self._conversation.interrupt()
        # Also a shell that only waits: whoever stops the agent looks for what it has left running.
        await asyncio.to_thread(self._commands.interrupt)

    def _used(self):
        used = self._conversation.conversation_stats.get_combined_metrics().accumulated_token_usage
        read, written = used.cache_read_tokens or 0, used.cache_write_tokens or 0
        return {"inputTokens": max(used.prompt_tokens - read - written, 0), "outputTokens": used.completion_tokens,
                "cachedReadTokens": read, "cachedWriteTokens": written}

    async def close(self):
        await self.cancel()
        if self._work is not None:
            await self._work
        self._conversation.close()

    def end(self):
        """At once, with nothing left running."""
        self._commands.close()


def catch_up(conversation):
    """Of a conversation that was ended in the middle of a step its events were written down, but not that they are part
    of it; and OpenHands would do now what was being done then."""
    state = conversation.state
    last = next((event for event in reversed(state.events) if isinstance(event, LLMConvertibleEvent)), None)
    if last is not None and state.leaf_event_id in {event.id for event in state.events.path_to_root(last.id)}:
        conversation.navigate_to(last.id)
    if ConversationState.get_unmatched_actions(state.active_branch()):
        conversation.reject_pending_actions(NOT_DONE)
        # What is sent to the model had left the calls out.
        state.rebuild_view()


def reason(failed):
    """The status of the model's answer where there is one, and words."""
    cause = failed
    while cause is not None:
        status = getattr(cause, "status_code", None)
        if isinstance(status, int):
            return status, str(cause)
        cause = getattr(cause, "original_exception", None) or cause.__cause__
    return FAILED, f"{type(failed).__name__}: {failed}"
