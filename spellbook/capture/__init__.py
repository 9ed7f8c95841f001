"""Capture: sessions of agents become notes by themselves, once a person has said yes on this machine."""
