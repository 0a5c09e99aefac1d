"""Runs the statements of a fold on DataFusion or Sail, for the tests.

usage: python3 engine.py PLACE datafusion|sail

PLACE is the directory of the packages in requirements.txt, which are installed there once.
Each line of standard input is a request as JSON. It has `events`, `periods` and `statements`, each
with `sql` and `out`; or `spoil`, the path of a file, and `how` to make it wrong. Each gets a line:
`done`, or what went wrong; `ask` for the `url` of Sail gets that. Sail is a server of Spark Connect in a thread of this process.
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


def sail():
    from pysail.spark import SparkConnectServer
    from pyspark.sql import SparkSession

    server = SparkConnectServer(ip="127.0.0.1", port=0)
    server.start(background=True)
    _, port = server.listening_address
    session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()

    def run(request):
        for statement in request["statements"]:
            session.sql(statement["sql"]).write.mode("overwrite").parquet(statement["out"])

    # The server ends with the last name of it.
    run.server = server
    run.url = f"sc://127.0.0.1:{port}"
    return run


def spoil(request):
    """Makes the states of a file wrong."""
    import pyarrow
    import pyarrow.parquet

    path, how = request["spoil"], request["how"]
    table = pyarrow.parquet.read_table(path, partitioning=None)
    rows = table.to_pylist()
    first = rows[0]
    if how == "missing":
        rows.pop()
    elif how == "twice":
        rows.append(dict(first))
    elif how == "another key":
        # As good a score, at another time.
        rows.append({**first, "key": first["key"] + 1})
    elif how == "score":
        first["score"] += 1
    elif how == "wrapped":
        first["score"] -= 1
        first["key"] += request["unit"]
    elif how == "time":
        first["key"] += 1
    elif how == "outside":
        first["key"] += request["unit"] // 2
    elif how == "key":
        first["key"] = -1
    elif how == "partition":
        # The partition that it goes to is checked before the one that lacks it.
        last = max(rows, key=lambda row: row["partition"])
        last["partition"] = min(row["partition"] for row in rows)
    elif how == "stranger":
        first["partition"] += 1000
    elif how == "swapped":
        alike = lambda row: [row[name] for name in ("segment", "period", "partition")]
        other = next(row for row in rows[1:] if alike(row) == alike(first) and row["key"] != first["key"])
        first["member"], other["member"] = other["member"], first["member"]
    elif how == "period":
        first["period"] = "1999-01-01"
    elif how == "seq":
        first["seq"] += 100000
    elif how == "column":
        table = table.drop_columns(["seq"])
        rows = table.to_pylist()
    else:
        raise ValueError(f"unknown lie {how}")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, table.schema), path)


def main():
    place, engine = sys.argv[1:]
    if ENTERED not in os.environ:
        enter(os.path.abspath(place))
    run = datafusion if engine == "datafusion" else sail()
    for line in sys.stdin:
        try:
            request = json.loads(line)
            answer = "done"
            if "ask" in request:
                answer = getattr(run, request["ask"])
            elif "spoil" in request:
                spoil(request)
            else:
                run(request)
        except Exception as error:
            answer = " ".join(str(error).split()) or repr(error)
        print(answer, flush=True)
    sys.stdout.flush()
    os._exit(0)


main()
