"""Which test files begin first, which share a process, and how many examples a test tries."""

FAST, QUICK = 15, 50
"""Examples of a test at most: in `make test-fast`, and in `make test`."""
SESSION = (
    "tests/spark/test_hosting_on_spark.py",
    "tests/spark/test_live_quarantine.py",
    "tests/spark/test_evil_views.py",
    "tests/spark/test_view_engine.py",
    "tests/spark/test_statistics.py",
    "tests/spark/test_session_settings.py",
    "tests/experiments/test_harness.py",
)
"""Files that use a Spark session of their own process: one worker runs them all, and starts one Java."""
LONGEST = (
    "tests/spark/test_live.py",
    *SESSION,
    "tests/cli/test_run_command.py",
    "tests/testing/test_fault_seeds.py",
    "tests/testing/test_mutants.py",
    "tests/spark/test_live_tables.py",
    "tests/testing/test_table_simulation.py",
    "tests/testing/test_pair_simulation.py",
    "tests/client/test_killed_client.py",
    "tests/soak/test_truth_check.py",
)
"""Files that take longest, in the order in which they begin: whoever is done first takes the short ones."""
