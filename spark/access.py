"""A catalog as Spark's side of lakelog opens it: by one configuration for lakelog's own requests,
for Spark's connector, and for the tasks that write.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..catalog.catalog import Catalog, open_catalog
from .hadoop_options import is_s3
from .s3_identity import Identity, session_options
from .s3_settings import S3Settings
from .versions import check_spark

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Access:
    """A catalog, and what opens its store, which Spark's tasks need too.

    Attributes:
        by_session: Whether Spark's settings say who one is to the store, so that its connector
            needs nothing else.
    """

    catalog: Catalog
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    location_options: Mapping[str, Mapping[str, Any]] | None = field(default=None, repr=False)
    by_session: bool = False

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        url: str,
        storage_options: Mapping[str, Any] | None = None,
        location_options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Access:
        """That of a root, opened as `open_catalog` does, on S3 by the session's `fs.s3a.*` if
        there are no storage options.

        Raises:
            SparkUnsupported: The Spark that is installed is too old.
            As `open_catalog`.
        """
        check_spark()
        by_session = False
        if not storage_options and is_s3(str(url)):
            storage_options, by_session = session_options(spark, str(url))
        catalog = open_catalog(url, storage_options, location_options)
        return cls(catalog, storage_options, location_options, by_session)

    def settings(self, elsewhere: Sequence[str]) -> S3Settings | None:
        """What Spark is told for a read; None: nothing, it is set up.

        Args:
            elsewhere: Roots of other places where files lie.
        """
        own = [] if self.by_session else [(self.catalog.url, self.storage_options or {})]
        for root in elsewhere:
            options = self.catalog.wide.options_of(root)
            # Where the session doesn't say who one is, this process does, for any bucket.
            is_known = self.by_session or not is_s3(self.catalog.url)
            if not is_known or (options and options != self.storage_options):
                own.append((root, options))
        own = [(url, options) for url, options in own if is_s3(url)]
        return S3Settings(own) if own else None

    def task_options(self) -> dict[str, Any]:
        """The storage options for tasks of one job, on machines that know nothing of this one's
        environment and profiles.

        Raises, Requests: As `Identity.options`.
        """
        options = dict(self.storage_options or {})
        if self.by_session or not is_s3(self.catalog.url):
            return options
        return Identity(options).options()
