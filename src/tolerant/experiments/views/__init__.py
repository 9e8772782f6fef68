"""Figures of [DISS] chapter 2, scheduling the refreshes of materialized views."""
