"""What the runtime says of this run, and an environment in which nothing is reported or fetched."""

import json
import os
import warnings

# Under this name the runtime hands over everything at once; commands do not see it.
SETTINGS = "SUNABA_OPENHANDS"
# Beginnings of variables that would have OpenHands or its libraries report somewhere, or work for somebody else.
NOT_OURS = ("AUTOMATION_", "LITELLM_", "LLM_", "LMNR_", "LOG_", "OH_", "OPENHANDS_", "OTEL_")
OURS = {
    "HF_HUB_OFFLINE": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LOG_LEVEL": "ERROR",
    "OPENHANDS_SUPPRESS_BANNER": "1",
}


def take():
    """The settings, and the environment that commands are to have. Has to come before anything of OpenHands."""
    settings = json.loads(os.environ.pop(SETTINGS))
    commands = dict(os.environ)
    for name in commands:
        if name.startswith(NOT_OURS):
            del os.environ[name]
    os.environ.update(OURS)
    # What was written last is told as the reason when the program dies, and that a model has no price here is none.
    warnings.simplefilter("ignore")
    return settings, commands
