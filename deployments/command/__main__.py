"""`python -m deployments.command` is `sambert-serve`."""

import sys

from deployments.command.main import main

if __name__ == "__main__":
    sys.exit(main())
