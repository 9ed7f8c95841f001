"""Models that a person downloads: fetched, verified, stored whole or not at all."""
