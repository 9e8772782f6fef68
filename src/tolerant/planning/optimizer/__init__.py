"""Finds the parts of a plan and their bounds: greedy rules, descent, exact search, and the division of a bound."""
