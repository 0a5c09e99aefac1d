"""Drives the PyPI package leaderboard: prints the rate of each call, per second, as JSON. Arguments: socket, key, members, seconds."""

import json
import random
import sys
import time

from leaderboard.leaderboard import Leaderboard
from redis import Redis

socket, key, members, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
connection = Redis(unix_socket_path=socket)
board = Leaderboard(key, connection=connection, page_size=11)


def name():
    return f"member-{random.randrange(members):09}"


def rate(once):
    count, end = 0, time.perf_counter() + seconds
    began = time.perf_counter()
    while time.perf_counter() < end:
        once()
        count += 1
    return count / (time.perf_counter() - began)


print(
    json.dumps(
        {
            "around": rate(lambda: board.around_me(name())),
            "top": rate(lambda: board.leaders(1, page_size=100)),
            "submit": rate(lambda: board.rank_member(name(), random.randrange(1_000_000_000))),
        }
    )
)
