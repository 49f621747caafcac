"""`python -m s2d_tf` is the same as the command `s2d`."""

import sys

from s2d_tf import cli

if __name__ == "__main__":
    sys.exit(cli.main())
