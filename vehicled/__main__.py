"""Entry point of ``python -m vehicled``."""

import sys

from vehicled.cli import main

sys.exit(main())
