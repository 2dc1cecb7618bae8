"""Normalizer: text in, segments of symbols out; owner of the cache and of the order of segments."""
