"""Deployments of sambert-serve: the stages between Chinese text and emotional speech."""
