"""Which errors of storage, catalog and network may pass by themselves: what met one is tried again."""

from __future__ import annotations

import re

from ingest.errors import LakeError, UnavailableError
from ingest.spark.jvm import root_cause

# What S3, Glue and others of AWS answer for "later", by their codes.
_LATER = (
    r"SlowDown|Throttl|TooManyRequests|RequestLimitExceeded|RequestTimeout\b|RequestTimeoutException|InternalError"
    r"|InternalFailure|InternalService|ServiceUnavailable|OperationTimeout|Status Code: 50\d|status=50\d"
)
# What a network, a metastore in PostgreSQL and HDFS say that do not answer now.
_DOES_NOT_ANSWER = (
    r"onnection (?:was )?(?:refused|reset|closed|timed out|attempt failed)|[Bb]roken pipe|UnknownHost|ConnectException"
    r"|NoHttpResponse|No route to host|[Tt]imed? ?out|has been closed|I/O error occurred while sending"
    r"|the database system is|terminating connection|too many (?:clients|connections)|in safe mode|StandbyException"
)
# These are for good, whatever else the text names.
_FOR_GOOD = (
    r"NoSuchBucket|AccessDenied|Forbidden|AllAccessDisabled|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken"
    r"|InvalidToken|NoAuthWithAWS|[Nn]o AWS [Cc]redentials|Unable to load (?:AWS )?credentials"
)


def may_pass(error: BaseException | None) -> bool:
    """Whether an error may pass: by what it, or an error that it was raised from, came from."""
    if not isinstance(error, Exception):
        return False
    if isinstance(error, LakeError):
        # Its own text names what users have named.
        return isinstance(error, UnavailableError) or may_pass(error.__cause__)
    cause = root_cause(error)
    return not re.search(_FOR_GOOD, cause) and re.search(f"{_LATER}|{_DOES_NOT_ANSWER}", cause) is not None
