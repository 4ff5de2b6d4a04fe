"""How Spark reaches S3: Hadoop's s3a, whose jars are in jars.lock, under the name that S3 has everywhere else, `s3://`.

Endpoint, region and credentials come from where every tool of AWS looks for them: one setting is enough for Spark and
for boto3. Settings that a target has itself win.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_PREFIX = "spark.hadoop.fs.s3a."
# A request that S3 does not serve is given up after a minute or two. With s3a's own numbers, of which one multiplies
# the other, it was more than ten.
_TRIES = {"attempts.maximum": "6", "retry.limit": "4"}

# What to do about an error of S3, by the code or the words in it. The first that fits counts.
_TO_DO = {
    "NoSuchBucket|[Bb]ucket (?:\\S+ )?does not exist": (
        "make the bucket that is named, in the region of AWS_REGION, or name another one (LAKE_ROOT)"
    ),
    "InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken|RequestTimeTooSkewed": (
        "check which credentials are found: AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    ),
    "[Nn]o AWS [Cc]redentials|NoAuthWithAWS|Unable to load (?:AWS )?credentials": (
        "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role"
    ),
    "Access ?Denied|Forbidden|AllAccessDisabled": (
        "give the role s3:ListBucket on the bucket, s3:GetObject on what is read, and on the lake PutObject, "
        "DeleteObject and AbortMultipartUpload as well"
    ),
    "SlowDown|Throttl|Status Code: 50|InternalError|ServiceUnavailable|RequestTimeout": (
        "S3 did not serve this after all attempts: see its health, and who else calls it for this folder"
    ),
}
_IS_S3 = re.compile(r"amazonaws|Amazon S3|s3a|AWS[A-Z]|NoAuthWithAWS|calling the \w*Object\w* operation")


def settings() -> Mapping[str, str]:
    """The session's settings for S3, by the environment. A Spark of the user's own has its own way to S3."""
    if os.environ.get("SPARK_HOME"):
        return {}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
    given = {
        "endpoint": endpoint,
        "endpoint.region": region,
        # A server that stands in for S3 knows no names of hosts for its buckets.
        "path.style.access": "true" if endpoint else "",
    }
    return {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        # As boto3 finds them: in the environment, the user's profile, a token of the web, the container, the machine.
        f"{_PREFIX}aws.credentials.provider": "com.amazonaws.auth.DefaultAWSCredentialsProviderChain",
        # Marks of folders stay: each new file would ask for those above it to be removed.
        f"{_PREFIX}directory.marker.retention": "keep",
        **{f"{_PREFIX}{name}": number for name, number in _TRIES.items()},
        **{f"{_PREFIX}{name}": value for name, value in given.items() if value},
    }


def to_do(text: str) -> str | None:
    """What to do about an error, by its text; None where it is not S3 that refuses."""
    if not _IS_S3.search(text):
        return None
    return next((action for kind, action in _TO_DO.items() if re.search(kind, text)), None)
