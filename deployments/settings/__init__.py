"""Everything that configs/*.yaml may say, with every default, once.

The models are frozen and refuse unknown keys; `Settings.load` turns pydantic's report into one ConfigurationInvalid
that names the key. This package imports neither Ray nor torch.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field, ValidationError, model_validator

from deployments.settings.base import Batching, Replicas, Strict, explain
from deployments.settings.cache import CacheSettings, RedisCacheSettings, SqliteCacheSettings
from deployments.settings.ingress import AdmissionSettings, IngressSettings, TaskSettings
from deployments.settings.stages import (
    AcousticSettings,
    NormalizerSettings,
    VocoderSettings,
    VoiceSource,
    VoicesSettings,
)

__all__ = [
    "AcousticSettings",
    "AdmissionSettings",
    "Batching",
    "CacheSettings",
    "IngressSettings",
    "NormalizerSettings",
    "RedisCacheSettings",
    "Replicas",
    "Settings",
    "SqliteCacheSettings",
    "TaskSettings",
    "VocoderSettings",
    "VoiceSource",
    "VoicesSettings",
]


class Settings(Strict):
    """The whole configuration of the application: the `args` of the serve config."""

    voices: VoicesSettings = Field(VoicesSettings(), description="Voices and where they come from.")
    ingress: IngressSettings = Field(IngressSettings(), description="HTTP surface.")
    normalizer: NormalizerSettings = Field(NormalizerSettings(), description="Text front end and order of segments.")
    cache: CacheSettings = Field(CacheSettings(), description="Cache of segments and of analysed texts.")
    acoustic: AcousticSettings = Field(AcousticSettings(), description="Acoustic model.")
    vocoder: VocoderSettings = Field(VocoderSettings(), description="Vocoder.")

    @model_validator(mode="after")
    def _accepted_work_finds_room(self) -> Settings:
        most = self.normalizer.replicas.max_ongoing_requests * self.normalizer.max_segments_ahead
        for name in ("acoustic", "vocoder"):
            room = getattr(self, name).replicas.max_queued_requests
            if 0 <= room < most:
                raise ValueError(
                    f"{name}.replicas.max_queued_requests={room} is less than the {most} segments that one normalizer "
                    "replica may send (normalizer.replicas.max_ongoing_requests times normalizer.max_segments_ahead); "
                    "raise the one or lower the others"
                )
        return self

    @classmethod
    def load(cls, raw: Settings | dict[str, Any] | None) -> Settings:
        """Checks a configuration.

        Args:
            raw: The mapping under `args` in a serve config, or nothing for the defaults.

        Returns:
            The frozen settings.

        Raises:
            ConfigurationInvalid: A key is unknown or a value is out of range; names each key with its full path.
        """
        if isinstance(raw, Settings):
            return raw
        try:
            return cls.model_validate({} if raw is None else raw)
        except ValidationError as error:
            raise explain(error) from error
