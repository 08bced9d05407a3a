"""One step of a language-model engine on its devices: amounts, rates, seconds and joules."""
