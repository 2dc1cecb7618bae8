"""The real stages in this process, with the bundled voice; what was spoken is kept in memory alone."""

from deployments.command import pipeline
from deployments.settings import CacheSettings, Settings


class Pipeline(pipeline.Pipeline):
    def __init__(self) -> None:
        super().__init__(Settings(cache=CacheSettings(tier="none")))
