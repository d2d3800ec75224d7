"""`python -m gateway.cli`: the same as the installed command, for processes that start further ones."""

from gateway.cli import main

if __name__ == "__main__":
    main()
