"""Corruptions, rotations and translations of images."""
