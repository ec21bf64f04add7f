"""The shell: parses words, calls the API, prints, and alone decides exit codes."""
