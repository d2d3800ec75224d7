"""`python -m gateway.cli`: the same as `deskmate`, with the interpreter that is running."""

from gateway.cli import main

if __name__ == "__main__":
    main()
