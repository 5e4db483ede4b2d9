"""OpenHands' agent, with the model at the one address that it is given."""

import litellm
from openhands.sdk import LLM, Agent, AgentContext, Tool
from openhands.sdk.context.condenser import default_condenser
from openhands.tools.file_editor import FileEditorTool
from openhands.tools.task_tracker import TaskTrackerTool
from pydantic import SecretStr

from .terminal import SteeredTerminal

# What is said of a model of which nothing is known.
CONTEXT_TOKENS = 200_000
OUTPUT_TOKENS = 32_000
# Failed calls are made again after half a second, one, two …
TRIES, FIRST_WAIT, LONGEST_WAIT_SECONDS = 8, 0.5, 30
CALL_SECONDS = 3600
SILENCE_SECONDS = 600


def make_agent(said, retry_listener):
    litellm.telemetry = False
    name = f"anthropic/{said['model']}"
    limits = {} if is_known(name) else {"max_input_tokens": CONTEXT_TOKENS, "max_output_tokens": OUTPUT_TOKENS}
    llm = LLM(
        usage_id="agent", model=name, base_url=said["base_url"], api_key=SecretStr(said["key"]), stream=True,
        num_retries=TRIES, retry_min_wait=0, retry_max_wait=LONGEST_WAIT_SECONDS, retry_multiplier=FIRST_WAIT,
        timeout=CALL_SECONDS, stream_idle_timeout=SILENCE_SECONDS, retry_listener=retry_listener, **limits,
    )
    prompt = {"system_prompt": said["system_prompt"]} if said.get("system_prompt") else {}
    return Agent(
        llm=llm,
        tools=[Tool(name=tool.name) for tool in (SteeredTerminal, FileEditorTool, TaskTrackerTool)],
        agent_context=AgentContext(system_message_suffix=said.get("append"), load_project_skills=True),
        condenser=default_condenser(llm.model_copy(update={"usage_id": "condenser", "stream": False})),
        system_prompt_kwargs={"cli_mode": True},
        **prompt,
    )


def is_known(name):
    return name in litellm.model_cost or name.removeprefix("anthropic/") in litellm.model_cost
