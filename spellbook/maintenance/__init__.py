"""How good a vault and its index are: evaluation, duplicates, health, and the switch of embedding models. Changes no note."""
