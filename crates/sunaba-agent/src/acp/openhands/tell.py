"""What OpenHands does, told in the protocol's words."""

import json
import threading

from openhands.sdk.event import ActionEvent, MessageEvent
from openhands.sdk.event.llm_convertible.observation import ObservationBaseEvent, ObservationEvent
from openhands.sdk.llm import content_to_str
from openhands.sdk.tool.builtins.finish import FinishAction
from openhands.sdk.tool.builtins.think import ThinkAction

# The file editor's commands as tools: name, kind.
EDITS = {"create": ("Write", "edit"), "str_replace": ("Edit", "edit"), "insert": ("Edit", "edit"),
         "undo_edit": ("Edit", "edit"), "view": ("Read", "read")}
# Its arguments, as others call them.
ARGUMENTS = {"path": "file_path", "file_text": "content", "old_str": "old_string", "new_str": "new_string"}


class Teller:
    """Turns events into updates. Called from several threads."""

    def __init__(self, update):
        self._update = update
        self._lock = threading.Lock()
        # Calls without a result, in order; those that only speak are not told as tools.
        self._open = {}
        self._answers = 0
        self._is_answered = True
        self._has_said = False

    def has_open_calls(self):
        return bool(self._open)

    # What the model says, as it comes.

    def token(self, chunk):
        for choice in chunk.choices:
            self._say("agent_thought_chunk", getattr(choice.delta, "reasoning_content", None))
            self._say("agent_message_chunk", choice.delta.content)

    def _say(self, kind, text):
        if not text:
            return
        self._begin_answer()
        self._has_said = True
        part = {"type": "text", "text": text}
        self._update({"sessionUpdate": kind, "content": part, "messageId": f"answer-{self._answers}"})

    def _begin_answer(self):
        if self._is_answered:
            self._answers += 1
            self._is_answered = self._has_said = False

    def tried_again(self, error):
        """The call failed and is made once more: what it had begun to say is no answer."""
        self._is_answered = True
        self._update({"sessionUpdate": "_call_failed", "error": str(error)})

    # What became of it.

    def event(self, event):
        with self._lock:
            if isinstance(event, ActionEvent):
                self._asks(event)
            elif isinstance(event, ObservationBaseEvent):
                self._ends(event)
            elif isinstance(event, MessageEvent) and event.source == "agent":
                self._begin_answer()
                if not self._has_said:
                    self._say("agent_message_chunk", "".join(content_to_str(event.llm_message.content)))
                self._count()

    def _asks(self, event):
        if not self._is_answered and self._has_said or event.thought == []:
            self._begin_answer()
        else:
            self._say("agent_message_chunk", "".join(content_to_str(event.thought)))
        self._is_answered = True
        self._open[event.tool_call_id] = event
        match event.action:
            case FinishAction(message=message):
                self._say_more("agent_message_chunk", message)
            case ThinkAction(thought=thought):
                self._say_more("agent_thought_chunk", thought)
            case _:
                self._update({"sessionUpdate": "tool_call", "status": "in_progress", **described(event)})

    def _say_more(self, kind, text):
        """Words that are the answer's own, although they came as a call."""
        self._is_answered = False
        self._say(kind, text)
        self._is_answered = True

    def _ends(self, event):
        call = self._open.pop(event.tool_call_id, None)
        if call is not None and not isinstance(call.action, (FinishAction, ThinkAction)):
            is_good = isinstance(event, ObservationEvent) and not event.observation.is_error
            status = "completed" if is_good else "failed"
            output = "\n".join(content_to_str(event.to_llm_message().content))
            self._update({"sessionUpdate": "tool_call_update", "toolCallId": event.tool_call_id,
                          "status": status, "rawOutput": {"output": output}})
        if not self._open:
            self._count()

    def _count(self):
        """The answer is over, with everything that it asked for."""
        self._is_answered = True
        self._update({"sessionUpdate": "usage_update"})

    def written(self, piece):
        """A command writes: that is the first of the open ones, for there is one shell."""
        running = next((call for call in list(self._open.values()) if call.tool_name == "terminal"), None)
        if running is not None:
            self._update({"sessionUpdate": "tool_call_update", "toolCallId": running.tool_call_id,
                          "_meta": {"terminal_output": {"data": piece}}})


def described(event):
    """A call in the protocol's words."""
    about = {"toolCallId": event.tool_call_id, "title": event.tool_name, "kind": "other"}
    given = event.action.model_dump(exclude={"kind"}, exclude_defaults=True) if event.action else arguments(event)
    if event.tool_name == "terminal":
        return {**about, "title": "Bash", "kind": "execute", "rawInput": given}
    if event.tool_name == "file_editor" and given.get("command") in EDITS:
        about["title"], about["kind"] = EDITS[given.pop("command")]
        path = given.get("path", "")
        about["rawInput"] = {ARGUMENTS.get(name, name): value for name, value in given.items()}
        about["locations"] = [{"path": path}]
        if about["kind"] == "edit" and (given.get("file_text") or given.get("old_str")):
            old, new = given.get("old_str"), given.get("file_text") or given.get("new_str") or ""
            about["content"] = [{"type": "diff", "path": path, "oldText": old, "newText": new}]
        return about
    return {**about, "rawInput": given}


def arguments(event):
    """What the model wrote, when it is not what the tool takes."""
    try:
        given = json.loads(event.tool_call.arguments)
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}


def changes_something(event):
    """Whether somebody has to be asked before: looking and speaking is always allowed."""
    if isinstance(event.action, (FinishAction, ThinkAction)):
        return False
    return described(event)["kind"] != "read" and event.tool_name != "task_tracker"
