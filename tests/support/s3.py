"""A bucket of an object store that speaks S3's protocol, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

moto_server = pytest.importorskip("moto.server", reason="moto is not installed: it stands for S3")


@contextmanager
def s3_bucket(name: str) -> Iterator[FileSystem]:
    """The file system in which `name` is an empty bucket; the environment leads to it inside of the block."""
    from pyarrow.fs import FileSystem

    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        with pytest.MonkeyPatch.context() as changed:
            # A body behind its head would wait 40 ms for the client's acknowledgement of the head.
            changed.setattr("werkzeug.serving.WSGIRequestHandler.disable_nagle_algorithm", True)
            changed.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
            changed.setenv("AWS_ACCESS_KEY_ID", "x")
            changed.setenv("AWS_SECRET_ACCESS_KEY", "x")
            changed.setenv("AWS_DEFAULT_REGION", "us-east-1")
            changed.setenv("AWS_EC2_METADATA_DISABLED", "true")
            files, _ = FileSystem.from_uri(f"s3://{name}/?allow_bucket_creation=true")
            files.create_dir(name)
            yield files
    finally:
        server.stop()
