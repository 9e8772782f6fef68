"""The parts of the merging core that no pipeline runs; experiments, benchmarks and users of the library import them.

`generate` draws subscriptions as the simulator of [CBGM] §7.1 does. `cost_breakdown` says what a plan's cost consists
of, `distance` how far it is from the optimum. `allocate` maps channels to fewer physical ones.
"""
