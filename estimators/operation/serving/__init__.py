"""How long one step of a language-model server takes, and what runs of it add up to."""
