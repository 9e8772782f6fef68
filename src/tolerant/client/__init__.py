"""Reads answers: the current one first, then every change; resumes from a position that the reader kept."""

from tolerant.client.answers import Change, Client

__all__ = ["Change", "Client"]
