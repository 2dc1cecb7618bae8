"""Settings: frozen, unknown keys refused, errors name the key; the configs in configs/ say only what exists."""

from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel, ValidationError
from ray.serve.schema import HTTPOptionsSchema, ServeApplicationSchema, ServeDeploySchema

from deployments.deployment import serve_options
from deployments.errors import ConfigurationInvalid
from deployments.settings import Batching, Replicas, Settings
from graph import build

CONFIGS = Path(__file__).parents[2] / "configs"
SERVE_CONFIGS = [*sorted(CONFIGS.glob("*.yaml")), CONFIGS / "compose" / "serve.yaml"]


def test_defaults_load_from_nothing():
    assert Settings.load(None) == Settings.load({}) == Settings()


def test_settings_are_frozen():
    with pytest.raises(ValidationError):
        Settings().ingress.max_input_chars = 5


def groups(model, path=()):
    """Every group of settings that has a default, with the keys that lead to it."""
    for name, field in type(model).model_fields.items():
        if isinstance(field.default, BaseModel):
            yield (*path, name)
            yield from groups(field.default, (*path, name))


@pytest.mark.parametrize("path", list(groups(Settings())), ids=".".join)
def test_a_group_given_in_part_keeps_its_own_defaults(path):
    """replicas of the ingress take 200 requests at once also where the configuration says only how many CPUs."""
    group = Settings()
    for key in path:
        group = getattr(group, key)
    for name in type(group).model_fields:
        raw = {name: getattr(group, name)}
        for key in reversed(path):
            raw = {key: raw}
        assert Settings.load(raw) == Settings()


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ({"acustic": {}}, "acustic"),
        ({"acoustic": {"bathing": {}}}, "acoustic.bathing"),
        ({"acoustic": {"batching": {"max_batch_size": 0}}}, "acoustic.batching.max_batch_size"),
        ({"ingress": {"request_timeout_s": "soon"}}, "ingress.request_timeout_s"),
        ({"voices": {"sources": []}}, "voices.sources"),
        ({"normalizer": {"replicas": {"autoscaling": {"min_replicas": 3, "max_replicas": 2}}}}, "autoscaling"),
        ({"vocoder": {"replicas": {"max_ongoing_requests": 3}}}, "vocoder"),
        ({"vocoder": {"replicas": {"max_queued_requests": 1023}}}, "settings"),
        ([], "settings"),
        ("", "settings"),
    ],
)
def test_bad_configuration_names_the_key(raw, key):
    with pytest.raises(ConfigurationInvalid) as caught:
        Settings.load(raw)
    assert key in caught.value.message
    assert key in (caught.value.param or "settings")
    assert len(caught.value.message) < 300


def test_user_config_changes_batching_from_its_base():
    base = Batching(max_batch_size=8)
    assert base.changed({"batching": {"batch_wait_s": 0.5}}) == Batching(max_batch_size=8, batch_wait_s=0.5)
    assert base.changed({}) == base


@pytest.mark.parametrize("raw", [{"batch": {}}, {"batching": {"size": 3}}, {"batching": {"max_batch_size": -1}}])
def test_bad_user_config_is_refused(raw):
    with pytest.raises(ConfigurationInvalid):
        Batching().changed(raw)


def refuse_unknown(raw, schema, where):
    unknown = set(raw) - set(schema.model_fields)
    assert not unknown, f"{where}: unknown keys {sorted(unknown)}"


def test_configs_exist():
    assert {path.name for path in SERVE_CONFIGS} >= {"local.yaml", "cpu.yaml", "gpu.yaml", "cluster.yaml"}


@pytest.mark.parametrize("path", SERVE_CONFIGS, ids=lambda path: path.name)
def test_serve_configs_hold_only_known_keys(path):
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    refuse_unknown(raw, ServeDeploySchema, path.name)
    refuse_unknown(raw.get("http_options", {}), HTTPOptionsSchema, f"{path.name}: http_options")
    ServeDeploySchema.model_validate(raw)
    for application in raw["applications"]:
        refuse_unknown(application, ServeApplicationSchema, f"{path.name}: {application['name']}")
        assert application["import_path"] == "graph:build"
        build(application["args"])


def num_cpus(settings, bound):
    stages = (settings.ingress, settings.normalizer, settings.acoustic, settings.vocoder)
    return sum(stage.replicas.num_cpus * getattr(stage.replicas.autoscaling, bound) for stage in stages)


@pytest.mark.parametrize(
    ("name", "cores"), [("local.yaml", 2), ("compose/serve.yaml", 2), ("cpu.yaml", 16), ("gpu.yaml", 8)]
)
def test_replicas_fit_the_machine_that_the_config_is_for(name, cores):
    raw = yaml.safe_load((CONFIGS / name).read_text(encoding="utf-8"))
    settings = Settings.load(raw["applications"][0]["args"])
    assert num_cpus(settings, "max_replicas") <= cores


def test_gpu_config_shares_one_gpu():
    raw = yaml.safe_load((CONFIGS / "gpu.yaml").read_text(encoding="utf-8"))
    settings = Settings.load(raw["applications"][0]["args"])
    stages = (settings.acoustic, settings.vocoder)
    assert all(0 < stage.replicas.num_gpus < 1 for stage in stages)
    assert sum(stage.replicas.num_gpus * stage.replicas.autoscaling.max_replicas for stage in stages) <= 1


def test_placement_reaches_ray():
    """Where nothing is said Ray gets nothing, so that any node will do."""
    selector = {"pool": "models", "ray.io/accelerator-type": "in(L4,A100)"}
    placed = serve_options(Replicas(label_selector=selector, max_replicas_per_node=2))
    assert placed["ray_actor_options"]["label_selector"] == selector
    assert placed["max_replicas_per_node"] == 2
    free = serve_options(Replicas())
    assert "label_selector" not in free["ray_actor_options"]
    assert "max_replicas_per_node" not in free
