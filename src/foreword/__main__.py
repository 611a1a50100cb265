"""``python -m foreword``."""

from __future__ import annotations

import sys

from foreword.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
