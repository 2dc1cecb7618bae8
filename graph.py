"""The application: binds Ingress, Normalizer, Acoustic and Vocoder together; nothing else does."""

from __future__ import annotations

from typing import Any

from ray import serve
from ray.serve import Application, Deployment

from deployments.acoustic.deployment import Acoustic
from deployments.deployment import serve_options
from deployments.ingress.deployment import Ingress
from deployments.normalization.deployment import Normalizer
from deployments.settings import Batching, Replicas, Settings
from deployments.vocoder.deployment import Vocoder


def build(args: dict[str, Any] | Settings | None = None) -> Application:
    """Builds the Serve application from its settings.

    Args:
        args: What a serve config says under `args`; nothing for the defaults.

    Returns:
        The application, for serve.run or a serve config's import_path "graph:build".

    Raises:
        ConfigurationInvalid: A key is unknown or a value is out of range; names the key.
    """
    settings = Settings.load(args)
    acoustic = _stage(Acoustic, settings.acoustic.replicas, settings.acoustic.batching).bind(
        settings.acoustic, settings.voices
    )
    vocoder = _stage(Vocoder, settings.vocoder.replicas, settings.vocoder.batching).bind(
        settings.vocoder, settings.voices, acoustic
    )
    normalizer = _stage(Normalizer, settings.normalizer.replicas).bind(
        settings.normalizer, settings.cache, settings.voices, acoustic, vocoder
    )
    ingress = _stage(serve.ingress()(Ingress), settings.ingress.replicas)
    return ingress.bind(settings.ingress, settings.cache, normalizer)


def _stage(stage: type, replicas: Replicas, batching: Batching | None = None) -> Deployment:
    """One deployment, named like its class, with its own replicas; its batch settings may change while it serves."""
    options = serve_options(replicas)
    if hasattr(stage, "reconfigure"):
        options["user_config"] = {} if batching is None else {"batching": batching.model_dump()}
    deployment: Deployment = serve.deployment(**options)(stage)
    return deployment


app = build()
