"""The application: binds the four deployments together; nothing else does.

    Ingress -> Normalizer -> Acoustic
                         \\-> Vocoder
"""

from __future__ import annotations

from typing import Any

from ray import serve
from ray.serve import Application

from deployments.acoustic.deployment import Acoustic
from deployments.deployment import batching_config, serve_options
from deployments.ingress.deployment import Ingress
from deployments.normalization.deployment import Normalizer
from deployments.settings import Settings
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
    acoustic = serve.deployment(
        Acoustic,
        name="Acoustic",
        user_config=batching_config(settings.acoustic.batching),
        **serve_options(settings.acoustic.replicas),
    ).bind(settings.acoustic, settings.voices)
    vocoder = serve.deployment(
        Vocoder,
        name="Vocoder",
        user_config=batching_config(settings.vocoder.batching),
        **serve_options(settings.vocoder.replicas),
    ).bind(settings.vocoder, settings.voices)
    normalizer = serve.deployment(
        Normalizer, name="Normalizer", **serve_options(settings.normalizer.replicas)
    ).bind(settings.normalizer, settings.voices, acoustic, vocoder)
    return serve.deployment(
        serve.ingress()(Ingress), name="Ingress", **serve_options(settings.ingress.replicas)
    ).bind(settings.ingress, normalizer)


app = build()
