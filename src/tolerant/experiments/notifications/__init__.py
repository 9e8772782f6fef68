"""Figures of [DISS] chapter 5, notifications of range-min subscriptions."""
