"""Figures of [GPR05], polling within a tolerance, and our chooser by risk."""
