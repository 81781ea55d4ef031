"""The command line: one file a command, each parses, makes one library call and prints."""
