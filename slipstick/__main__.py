"""``python -m slipstick`` is the command line."""

from slipstick import main

if __name__ == "__main__":
    main()
