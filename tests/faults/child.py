"""The process that forks: it imports lakelog once, and each child begins where the import ended.

Commands come as JSON lines on standard input and are answered, one line each, on standard output.
A child commits in a loop; what it attempts and what was acknowledged stands in a file of its own,
written and synced line by line. All children die with their parent, and it with its input.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings

import pyarrow as pa
import pyarrow.parquet  # before the fork, not once a child
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.commit import transaction  # noqa: F401
from lakelog.errors import LakelogError
from lakelog.store import open_store
from lakelog.testing.doubles import PassingStore


def commits(key):
    """Whether a put of this key commits: it is a transaction, and not the copy of one."""
    return key.endswith(".transaction") and "/mirror/" not in key


class StoppingStore(PassingStore):
    """Stops its own process right before it puts the nth transaction."""

    def __init__(self, store, stop_at, tell):
        super().__init__(store)
        self.stop_at, self.tell, self.puts = stop_at, tell, 0

    def put(self, key, body, *, if_absent=False):
        if commits(key):
            self.puts += 1
            if self.puts == self.stop_at:
                self.tell("stopping", key=key)
                os.kill(os.getpid(), signal.SIGSTOP)
        super().put(key, body, if_absent=if_absent)


def stop_before_link(stop_at, tell):
    """Stop right before the system call that gives the nth transaction its name."""
    link, seen = os.link, 0

    def stopping(source, target, **options):
        nonlocal seen
        if commits(target):
            seen += 1
            if seen == stop_at:
                tell("stopping", key=target)
                os.kill(os.getpid(), signal.SIGSTOP)
        link(source, target, **options)

    os.link = stopping


def work(job):
    """Commit until killed, fenced, or done with `commits`."""
    report = os.open(job["report"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def tell(what, **facts):
        os.write(report, json.dumps({"what": what, **facts}).encode() + b"\n")
        os.fsync(report)

    warnings.simplefilter("ignore")
    try:
        store = open_store(job["url"], job.get("options") or None)
        if job.get("stop_at") and job.get("stop_in") == "link":
            stop_before_link(job["stop_at"], tell)
        elif job.get("stop_at"):
            store = StoppingStore(store, job["stop_at"], tell)
        writer = Catalog(store).writer(
            "w", "db", shared=job.get("shared", False), checkpoint_every=job.get("every", 3)
        )
        tell("open", epoch=writer.epoch)
        for number in range(job.get("commits") or 1_000_000):
            tx = writer.transaction()
            transaction_id = tx.transaction_id
            if number % 2 == 0:
                tx.write("t", pa.table({"id": [transaction_id]}))
            else:
                tx.write("t", pa.table({"id": [transaction_id]}), partition="odd")
            tell("attempt", id=transaction_id)
            info = tx.commit()
            tell("done", id=transaction_id, revision=info.revision)
        tell("end")
    except LakelogError as error:
        keys = list(getattr(error, "keys", ()))
        tell("error", type=type(error).__name__, text=str(error), keys=keys)


def main():
    children = set()
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        if "wait" in command:
            answer = os.waitpid(command["wait"], 0)[1]
            children.discard(command["wait"])
        else:
            answer = os.fork()
            if answer == 0:
                try:
                    os.close(0)
                    work(command)
                    os._exit(0)
                except BaseException as error:
                    print(f"child: {error!r}", file=sys.stderr, flush=True)
                    os._exit(3)
            children.add(answer)
        print(json.dumps(answer), flush=True)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
