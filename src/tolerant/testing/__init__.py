"""Test doubles that are product code: logs and sources that fail on cue, and the seeded fault simulator."""

from tolerant.testing.failing import Call, FailingLog

__all__ = ["Call", "FailingLog"]
