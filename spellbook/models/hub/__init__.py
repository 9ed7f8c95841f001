"""The model that a person may download: fetched, verified, stored whole or not at all."""
