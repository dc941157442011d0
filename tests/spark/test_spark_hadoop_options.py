"""Storage options of fsspec as Hadoop settings, and what botocore finds for what they leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lakelog
import pytest
from lakelog.errors import AccessDenied, SparkUnsupported
from lakelog.spark.access import Access, Identity, S3Settings, bucket_options

if TYPE_CHECKING:
    from pathlib import Path

PROVIDER = "fs.s3a.bucket.b.c.aws.credentials.provider"
# The session's key store isn't asked.
OWN = {"lakelog.own.credentials.b.c": "true"}


def test_a_store_of_ones_own():
    options = {
        "key": "k",
        "secret": "s",
        "endpoint_url": "http://127.0.0.1:9000",
        "client_kwargs": {"region_name": "us-east-1"},
        "config_kwargs": {"s3": {"addressing_style": "path"}},
        "requester_pays": True,
    }
    assert bucket_options("s3://b.c/lake", options) == {
        "fs.s3a.bucket.b.c.access.key": "k",
        "fs.s3a.bucket.b.c.secret.key": "s",
        PROVIDER: "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "fs.s3a.bucket.b.c.endpoint": "http://127.0.0.1:9000",
        "fs.s3a.bucket.b.c.connection.ssl.enabled": "false",
        "fs.s3a.bucket.b.c.endpoint.region": "us-east-1",
        "fs.s3a.bucket.b.c.path.style.access": "true",
        "fs.s3a.bucket.b.c.requester.pays.enabled": "true",
        **OWN,
    }


def test_credentials_for_a_while_and_none():
    names = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
    found = bucket_options("s3a://b.c", {"client_kwargs": dict.fromkeys(names, "x")})
    assert found["fs.s3a.bucket.b.c.session.token"] == "x"
    assert found[PROVIDER].endswith("TemporaryAWSCredentialsProvider")
    assert bucket_options("s3://b.c", {"anon": True, "key": "k", "secret": "s"}) == {
        PROVIDER: "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider",
        **OWN,
    }


def test_endpoint_with_host_names_for_buckets():
    options = {
        "client_kwargs": {"endpoint_url": "https://store.example"},
        "config_kwargs": {"s3": {"addressing_style": "virtual"}},
    }
    found = bucket_options("s3://b", options)
    assert found["fs.s3a.bucket.b.path.style.access"] == "false"
    assert found["fs.s3a.bucket.b.connection.ssl.enabled"] == "true"


@pytest.mark.parametrize("url", ["/lake", "file:///lake", "gs://bucket", "memory://x"])
def test_nothing_for_other_stores(url):
    assert bucket_options(url, {"key": "k", "secret": "s"}) == {}
    assert bucket_options("s3://b", {}) == {}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where AWS's files are; nothing else tells botocore anything."""
    for name in ("ACCESS_KEY_ID", "PROFILE", "DEFAULT_REGION", "REGION", "ENDPOINT_URL"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return tmp_path


def test_what_is_left_out_is_found_in_the_environment(home, monkeypatch):
    assert Identity({}).options() == {}
    identity = Identity({"client_kwargs": {"region_name": "eu-north-1"}})
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://here")
    assert identity.options() == {
        "key": "k",
        "secret": "s",
        "endpoint_url": "http://here",
        "client_kwargs": {"region_name": "eu-north-1"},
    }
    monkeypatch.setenv("AWS_SESSION_TOKEN", "t")
    assert identity.options()["token"] == "t", "what was found once may change"
    assert "key" not in Identity({"anon": True}).options()
    own = Identity({"key": "mine", "secret": "my", "endpoint_url": "http://there"}).options()
    assert own == {
        "key": "mine",
        "secret": "my",
        "endpoint_url": "http://there",
        "client_kwargs": {"region_name": "us-east-1"},
    }


def test_a_profile(home):
    (home / "config").write_text("[profile p]\nregion = eu-west-1\nendpoint_url = http://here\n")
    (home / "credentials").write_text("[p]\naws_access_key_id = k\naws_secret_access_key = s\n")
    assert Identity({"profile": "p"}).options() == {
        "key": "k",
        "secret": "s",
        "endpoint_url": "http://here",
        "client_kwargs": {"region_name": "eu-west-1"},
    }
    with pytest.raises(AccessDenied, match=r"No credentials for S3.*other"):
        Identity({"profile": "other"}).options()


def test_settings_are_told_apart_without_telling_them(home):
    def named(**options: object) -> str:
        return S3Settings([("s3://b", options)]).name

    first = named(key="k", secret="s3cret")
    assert first == named(secret="s3cret", key="k")
    assert len({first, named(key="k", secret="other"), named(key="k"), named(session=home)}) == 4
    settings = S3Settings([("s3://b", {"key": "k", "secret": "s3cret"}), ("/x", {"key": "l"})])
    assert "s3cret" not in repr(settings) + repr(vars(settings)) + settings.name
    lines = settings.apply().split("\n")
    assert dict(zip(lines[::2], lines[1::2], strict=True)) == settings.now()
    assert settings.now()["fs.s3a.bucket.b.secret.key"] == "s3cret"


def test_one_bucket_has_one_set_of_options():
    """Spark's connector is told by bucket: the last set would open what the first one is for."""
    place = {"key": "a", "secret": "b"}
    assert S3Settings([("s3://b/lake", place), ("s3://b/more", dict(place))]).now()
    with pytest.raises(SparkUnsupported, match="two sets of options"):
        S3Settings([("s3://b/lake", place), ("s3://b/more", {"key": "c", "secret": "d"})])


def test_files_in_other_buckets_are_told_as_the_own_one_is():
    """Who one is only this process knows, for all buckets alike."""
    catalog = lakelog.open_catalog("s3://lake/root")
    found = Access(catalog).settings(["s3://other"])
    assert [url for url, _ in found._places] == ["s3://lake/root", "s3://other"]
    assert Access(catalog, by_session=True).settings(["s3://other"]) is None
