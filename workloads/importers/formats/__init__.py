"""What a file is, by its content: one list of formats, whatever the name of the file ends in."""
