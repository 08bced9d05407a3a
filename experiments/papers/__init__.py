"""The five papers, a folder each: every number that one states, beside ours."""
