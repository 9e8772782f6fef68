import subprocess
import sys


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_nothing_that_starts_threads_is_loaded_before_workers_are_forked() -> None:
    code = (
        "import sys, tolerant.spark.daemon; print(sorted({'numpy', 'pyarrow', 'pandas', 'pyspark'} & set(sys.modules)))"
    )
    assert run(code) == "[]"


def test_the_zip_is_left_out_only_if_pyspark_can_be_had_without_it() -> None:
    code = (
        "import sys; from tolerant.spark.daemon import _leave_out_zip as f;"
        "zip = '/x/pyspark/python/lib/pyspark.zip'; sys.path.insert(0, zip); f(); print(zip in sys.path);"
        "sys.path[:] = [zip, '/nowhere']; f(); print(zip in sys.path)"
    )
    assert run(code).split() == ["False", "True"]


def test_public_names_are_there() -> None:
    code = "import tolerant.spark as s; print([n for n in s.__all__ if not hasattr(s, n)])"
    assert run(code) == "[]"
