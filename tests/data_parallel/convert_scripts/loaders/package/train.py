"""Starts a training of a package."""

from pkg.run import main

if __name__ == "__main__":
    main()
