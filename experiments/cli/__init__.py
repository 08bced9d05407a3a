"""The command line: a verb a file, which parses what is typed and prints what is answered."""
