"""`python -m im2wingen` is the command line."""

from im2wingen.cli import main

if __name__ == "__main__":
    main()
