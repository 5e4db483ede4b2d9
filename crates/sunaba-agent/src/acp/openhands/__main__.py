"""OpenHands as an agent that speaks the Agent Client Protocol on its standard streams."""

from sunaba_openhands.serve import main

main()
