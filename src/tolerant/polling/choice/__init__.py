"""The rules that pick the items to pull at a tick: those of [GPR05], and `"risk"`."""
