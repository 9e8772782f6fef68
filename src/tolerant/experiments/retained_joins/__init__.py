"""Figures of [DISS] chapter 3, joins and caches with limited memory."""
