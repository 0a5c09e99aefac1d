"""Runs the statements of a fold on DataFusion or Sail, for the tests.

usage: python3 engine.py PLACE datafusion
       python3 engine.py PLACE sail PORT

PLACE is the directory of the packages in requirements.txt, which are installed there once.
Each line of standard input is a request as JSON, with `events`, `periods` and `statements` (`sql`,
`out`). Each gets a line: `done`, or what is wrong.
"""

import fcntl
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ENTERED = "LAUREL_TEST_ENGINE_ENTERED"


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except FileNotFoundError:
        return None


def enter(place):
    """Installs the packages unless they are there, and becomes their Python."""
    python = os.path.join(place, "bin", "python")
    requirements = os.path.join(HERE, "requirements.txt")
    installed = os.path.join(place, "installed.txt")
    os.makedirs(place, exist_ok=True)
    with open(os.path.join(place, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if read(installed) != read(requirements):
            subprocess.run([sys.executable, "-m", "venv", place], check=True, stdout=sys.stderr)
            install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "-r", requirements]
            subprocess.run(install, check=True, stdout=sys.stderr)
            with open(installed, "w") as file:
                file.write(read(requirements))
    os.environ[ENTERED] = "1"
    os.execv(python, [python, os.path.abspath(__file__), *sys.argv[1:]])


def datafusion(request):
    from datafusion import SessionContext

    context = SessionContext()
    context.register_parquet("events", request["events"])
    context.register_parquet("periods", request["periods"])
    for statement in request["statements"]:
        os.makedirs(statement["out"])
        context.sql(statement["sql"]).write_parquet(statement["out"])


def sail(port):
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()

    def run(request):
        for statement in request["statements"]:
            session.sql(statement["sql"]).write.mode("overwrite").parquet(statement["out"])

    return run


def main():
    place, engine = sys.argv[1:3]
    if ENTERED not in os.environ:
        enter(os.path.abspath(place))
    run = datafusion if engine == "datafusion" else sail(sys.argv[3])
    for line in sys.stdin:
        try:
            run(json.loads(line))
            answer = "done"
        except Exception as error:
            answer = " ".join(str(error).split()) or repr(error)
        print(answer, flush=True)


main()
