"""Starts a command under sandlock, and ends whatever it leaves behind. Started as a script by `skills.sandbox`.

It stays outside, where nothing inside can reach it: the kernel lets processes under sandlock signal only each other.
"""

import json
import os
import sys

from sandlock import Sandbox

sys.path.append(os.path.dirname(__file__))

import inside  # type: ignore[import-not-found]  # as a script it lies beside us


def main() -> int:
    policy, command = json.loads(sys.argv[1]), sys.argv[2:]
    inside.prctl(inside.SUBREAPER, 1)
    inside.prctl(inside.PARENT_DIED, 9)
    try:
        return int(Sandbox(**policy).popen(command).wait().exit_code)
    finally:
        inside.end_all()


if __name__ == "__main__":
    os._exit(main())
