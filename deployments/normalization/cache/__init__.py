"""Segment cache: key, tiers, single flight; neither Ray nor torch."""
