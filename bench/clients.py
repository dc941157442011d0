"""What the client of S3 costs: s3fs, as the package uses it, beside obstore, on moto in one run.

    python bench/clients.py [--requests 200] [--writers 200] [--commits 1 3] [--times 3]

Needs `pip install obstore`; the package doesn't. The numbers are the client's own time on the
processor: a request, one after the other and many at a time, and the newest snapshot of many
writers. obstore runs under the same boundary (`ObjectStore`: loop, retries), once with its own
listings and once with those of s3fs; without what its answers would have to be checked for, so
these are its best figures. At the end what the two make of answers that no store gives: why
obstore isn't offered (docs/reliability.md).
"""

from __future__ import annotations

import argparse

import tables
import writers
from lakelog.errors import LakelogError
from lakelog.store import open_store
from lakelog.testing.fault_proxy import Reply, fault_proxy
from lakelog.testing.servers import moto_server

# Prepended to what each fresh process runs: the package with the client that is to be measured.
CLIENT = """
import os
from types import SimpleNamespace
from lakelog.store import ObjectInfo, open_store, s3

class ByObstore(s3.S3Store):
    obstore = None

    def connect(self):
        if self.obstore is None:
            from obstore.store import S3Store
            told = self._options.reveal()
            self.obstore = S3Store(
                self._bucket, endpoint=told["endpoint_url"], access_key_id=told["key"],
                secret_access_key=told["secret"], region="us-east-1",
                checksum_algorithm="SHA256", virtual_hosted_style_request=False,
                client_options={"allow_http": True}, retry_config={"max_retries": 0},
            )
        return self.obstore

    async def _put(self, key, body, if_absent):
        mode = "create" if if_absent else "overwrite"
        await self._request(lambda: self.connect().put_async(
            self._base + key, body, mode=mode, use_multipart=False))

    async def _get(self, key, start, end):
        async def attempt():
            return await (await self.connect().get_async(self._base + key)).bytes_async()
        assert start is None and end is None
        return bytes(await self._request(attempt))

class AllByObstore(ByObstore):
    @property
    def _filesystem(self):
        from fsspec.asyn import get_loop
        return SimpleNamespace(loop=get_loop())

    def _pages(self, prefix, after, first_page):
        cut = len(self._base)
        folder, _, name = (self._base + prefix).rpartition("/")
        offset = max(self._base + (after or ""), folder + "/" + name[:-1] if name else "")
        pages = self.connect().list(folder, offset=offset or None, chunk_size=1000)
        async def following():
            return await anext(pages, None)
        while page := self._run(prefix, following):
            yield [ObjectInfo(o["path"][cut:], o["size"], o["last_modified"]) for o in page]

    async def _folders(self, full, token):
        found = await self.connect().list_with_delimiter_async(full.rstrip("/"))
        return [name + "/" for name in found["common_prefixes"]], None

s3.BackendStore = {"s3fs": s3.S3Store, "both": ByObstore, "obstore": AllByObstore}[job["client"]]
"""
REQUESTS = """
store = open_store(job["url"], job["options"])
count, body = job["requests"], os.urandom(2000)
keys = [f"w/{number:04d}" for number in range(count)]
store.put("w/first", body); store.get("w/first"); list(store.list("x/"))  # connected
def measure(name, work):
    start = time.process_time()
    work()
    found[name] = (time.process_time() - start) / count * 1e3
measure("PUT", lambda: [store.put(key, body, if_absent=True) for key in keys])
measure("GET", lambda: [store.get(key) for key in keys])
measure("LIST", lambda: [list(store.list("w/", after="w/zz")) for _ in keys])
measure("GET, many at a time", lambda: store.get_many(keys))
assert [info.key for info in store.list("w/")] == [*keys, "w/first"]
assert store.get_many(keys[:3]) == [body] * 3
"""
CLIENTS = {
    "s3fs": "s3fs",
    "obstore, listings by s3fs": "both",
    "obstore, all": "obstore",
}


def requests(url: str, options, count: int, times: int) -> None:
    names = ["PUT", "GET", "LIST", "GET, many at a time"]
    tables.head("client", *(f"ms for a {name}" for name in names))
    for number, (title, client) in enumerate(CLIENTS.items()):
        found = []
        for turn in range(times):
            job = {"url": f"{url}/{number}-{turn}", "options": options, "requests": count}
            found += tables.fresh(CLIENT + REQUESTS, job | {"client": client}, 1)
        tables.row(title, *(f"{min(run[name] for run in found):.2f}" for name in names))


def opening(url: str, options, count: int, commits: list[int], times: int) -> None:
    tables.head("client", "writers", "commits", "ms on the processor", "ms", "whole process")
    for each in commits:
        place = f"{url}/opened-{each}"
        writers.build(place, options, count, each)
        job = {"url": place, "options": options, "count": False}
        for title, client in CLIENTS.items():
            runs = tables.fresh(CLIENT + writers.OURS, job | {"client": client}, times)
            best = min(runs, key=lambda run: run["cpu_s"])
            assert best["writers"] == count
            shown = (f"{best[name] * 1e3:.0f}" for name in ("cpu_s", "s", "whole_s"))
            tables.row(title, count, each, *shown)


def wrong_answers(endpoint_url: str, bucket: str, options) -> None:
    """A listing of three objects, of which the page is not what a store sends."""
    from obstore.store import S3Store

    page = "<ListBucketResult><IsTruncated>{}</IsTruncated></ListBucketResult>"
    pages = {
        "a proxy's welcome": b"<html>Welcome</html>",
        "cut, and no token for the rest": page.format("true").encode(),
    }
    tables.head("answer to LIST", "s3fs", "obstore")
    with fault_proxy(endpoint_url) as proxy:
        options = options | {"endpoint_url": proxy.endpoint_url}
        ours = open_store(f"s3://{bucket}", options)
        theirs = S3Store(
            bucket, endpoint=proxy.endpoint_url, access_key_id=options["key"],
            secret_access_key=options["secret"], region="us-east-1",
            virtual_hosted_style_request=False,
            client_options={"allow_http": True}, retry_config={"max_retries": 0},
        )  # fmt: skip
        for name in "abc":
            ours.put(f"wrong/{name}", b"x")
        for title, body in pages.items():
            proxy.rule = lambda request, body=body: Reply(200, body)
            told = []
            for look in (lambda: list(ours.list("wrong/")), lambda: theirs.list("wrong").collect()):
                try:
                    told.append(f"{len(look())} objects, no error")
                except LakelogError as error:
                    told.append(f"{type(error).__name__}: {error.message}")
            tables.row(title, *told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--writers", type=int, default=200)
    parser.add_argument("--commits", type=int, nargs="*", default=[1, 3])
    parser.add_argument("--times", type=int, default=3)
    args = parser.parse_args()
    print("## Two clients of S3")
    with moto_server() as server:
        bucket = server.make_bucket()
        options = server.storage_options
        requests(f"s3://{bucket}/requests", options, args.requests, args.times)
        if args.writers:
            opening(f"s3://{bucket}/db", options, args.writers, args.commits, args.times)
        wrong_answers(server.endpoint_url, bucket, options)


if __name__ == "__main__":
    main()
