"""Figures of [DISS] chapter 4, many continuous joins on one stream."""
