"""Many points of one question: what-if, studies as files, resumable runs."""
