"""`python -m tolerant` is `tolerant`."""

from tolerant.cli import main

if __name__ == "__main__":
    main()
