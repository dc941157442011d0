"""moto with a conditional write that is one step, as S3's is.
`python -m lakelog.testing.moto_atomic` takes the arguments of `moto_server`.

moto looks whether the key is there and then writes it, in threads: of two writers who ask for
put-if-absent at once both may be told that they created the object. S3 never does that.
"""

from __future__ import annotations

import functools
import logging
import threading
from typing import Any

from moto.s3.responses import S3Response
from moto.server import main

from .moto_quick import quicken

_WRITES = threading.Lock()
_CONDITIONAL = ("put_object", "_key_response_post")  # a whole object; the end of one in parts


def serialise(name: str) -> None:
    """Let only one request at a time run a method of moto's."""
    original = getattr(S3Response, name)

    @functools.wraps(original)
    def alone(*args: Any, **kwargs: Any) -> Any:
        with _WRITES:
            return original(*args, **kwargs)

    setattr(S3Response, name, alone)


if __name__ == "__main__":
    quicken()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # nobody reads a line for each request
    for method in _CONDITIONAL:
        serialise(method)
    main()
