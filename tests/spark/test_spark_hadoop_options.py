"""Storage options of fsspec as Hadoop settings."""

from __future__ import annotations

import pytest
from lakelog.spark.hadoop_options import hadoop_options

PROVIDER = "fs.s3a.aws.credentials.provider"
# A cached connector would answer for another endpoint or key.
NO_CACHE = {f"fs.{scheme}.impl.disable.cache": "true" for scheme in ("s3", "s3a", "s3n")}


def test_a_store_of_ones_own():
    options = {
        "key": "k",
        "secret": "s",
        "endpoint_url": "http://127.0.0.1:9000",
        "client_kwargs": {"region_name": "us-east-1"},
        "config_kwargs": {"s3": {"addressing_style": "path"}},
    }
    assert hadoop_options("s3://bucket/lake", options) == {
        "fs.s3a.access.key": "k",
        "fs.s3a.secret.key": "s",
        PROVIDER: "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "fs.s3a.endpoint": "http://127.0.0.1:9000",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        **NO_CACHE,
    }


def test_credentials_for_a_while_and_none():
    names = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
    found = hadoop_options("s3a://b", {"client_kwargs": dict.fromkeys(names, "x")})
    assert found["fs.s3a.session.token"] == "x"
    assert found[PROVIDER].endswith("TemporaryAWSCredentialsProvider")
    assert hadoop_options("s3://b", {"anon": True, "key": "k", "secret": "s"}) == {
        PROVIDER: "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider",
        **NO_CACHE,
    }


def test_endpoint_with_host_names_for_buckets():
    options = {
        "client_kwargs": {"endpoint_url": "https://store.example"},
        "config_kwargs": {"s3": {"addressing_style": "virtual"}},
    }
    found = hadoop_options("s3://b", options)
    assert found["fs.s3a.path.style.access"] == "false"
    assert found["fs.s3a.connection.ssl.enabled"] == "true"


@pytest.mark.parametrize("url", ["/lake", "file:///lake", "gs://bucket", "memory://x"])
def test_nothing_for_other_stores(url):
    assert hadoop_options(url, {"key": "k", "secret": "s"}) == {}
    assert hadoop_options("s3://b", None) == {}
