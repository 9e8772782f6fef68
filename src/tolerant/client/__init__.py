"""Sends statements, and reads answers: the current one first, then every change; resumes from a kept position."""

from tolerant.client.answers import Change, Client
from tolerant.client.statements import Reply, Sent, missing, read, reply_to, send, standing

__all__ = ["Change", "Client", "Reply", "Sent", "missing", "read", "reply_to", "send", "standing"]
