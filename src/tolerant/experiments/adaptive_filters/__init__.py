"""Figures of [OJW03], adaptive filters for continuous queries, and the sensitivity of its parameters."""
