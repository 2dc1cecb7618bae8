"""Dockerfile and compose file as far as they can be checked without an engine: stages, users, paths, images, ports."""

import re
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from deployments.settings import Settings

ROOT = Path(__file__).parents[3]
COMPOSE_FILE = ROOT / "configs/compose/compose.yaml"
COMPOSE = yaml.safe_load(COMPOSE_FILE.read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
SERVE = yaml.safe_load((ROOT / "configs/compose/serve.yaml").read_text(encoding="utf-8"))
PROMETHEUS = yaml.safe_load((ROOT / "configs/monitoring/prometheus.yaml").read_text(encoding="utf-8"))
GRAFANA = ROOT / "configs/monitoring/grafana"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OF_COMPOSE = {"name", "services", "volumes"}
OF_SERVICES = {
    "build", "image", "command", "init", "stop_signal", "stop_grace_period", "restart", "shm_size", "environment",
    "ports", "volumes", "depends_on", "security_opt", "cap_drop", "healthcheck",
}  # fmt: skip


def stages():
    """The stages of the Dockerfile by name: what each stands on and its instructions."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found = {}
    for instruction in "\n".join(lines).replace("\\\n", " ").splitlines():
        word, _, rest = instruction.strip().partition(" ")
        if word == "FROM":
            base, name = re.fullmatch(r"(\S+) AS (\S+)", rest).groups()
            own = found[name] = []
            own.append(("FROM", base))
        elif word:
            own.append((word, rest.strip()))
    return found


STAGES = stages()


def lineage(name):
    """All instructions that make a stage, from its base image on."""
    base = STAGES[name][0][1]
    return (lineage(base) if base in STAGES else []) + STAGES[name]


@pytest.mark.parametrize("name", STAGES)
def test_stages_stand_on_stages_before_them_or_on_a_pinned_image(name):
    base = STAGES[name][0][1]
    before = list(STAGES)[: list(STAGES).index(name)]
    assert base in before or re.fullmatch(r"[a-z./]+:\d[\w.-]+", base)
    for word, rest in STAGES[name]:
        if word == "COPY" and (source := re.match(r"--from=(\S+)", rest)):
            assert source.group(1) in before


@pytest.mark.parametrize("name", STAGES)
def test_copied_files_exist(name):
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for word, rest in STAGES[name]:
        if word == "COPY" and not rest.startswith("--from"):
            for path in rest.split()[:-1]:
                assert (ROOT / path).exists(), path
                assert path not in ignored


@pytest.mark.parametrize("name", ["cpu", "cuda", "baked"])
def test_images_run_as_a_user_of_their_own(name):
    instructions = lineage(name)
    users = [rest for word, rest in instructions if word == "USER"]
    assert users == ["10001"]
    after = instructions[instructions.index(("USER", "10001")) :]
    assert not [rest for word, rest in after if word == "COPY" or "apt-get" in rest]
    (command,) = [rest for word, rest in instructions if word == "CMD"]
    assert "sambert-serve" in command
    for config in re.findall(r"configs/[\w.]+", command):
        assert (ROOT / config).exists()


def test_the_last_stage_is_the_one_for_every_machine():
    assert list(STAGES)[-1] == "cpu"
    assert STAGES["base"][0][1].startswith(f"python:{PROJECT['requires-python'].removeprefix('>=')}-")


def test_only_voices_that_are_baked_in_lie_outside_a_volume():
    """What a stage writes below a volume is lost."""
    volumes = {name: [rest for word, rest in lineage(name) if word == "VOLUME"] for name in ("cpu", "cuda", "baked")}
    assert volumes["cpu"] == volumes["cuda"] == ["/home/sambert/.cache/sambert-serve"]
    assert volumes["baked"] == []
    assert Settings().voices.cache_dir.replace("~", "/home/sambert").startswith(volumes["cpu"][0])
    assert Settings().cache.sqlite.folder.replace("~", "/home/sambert").startswith(volumes["cpu"][0])
    assert Settings().vocoder.runtime_cache_dir.replace("~", "/home/sambert").startswith(volumes["cpu"][0])


def test_compose_has_only_known_keys():
    assert set(COMPOSE) <= OF_COMPOSE
    for service in SERVICES.values():
        assert set(service) <= OF_SERVICES
        assert set(service.get("depends_on", ())) <= set(SERVICES)


@pytest.mark.parametrize("name", SERVICES)
def test_images_are_pinned(name):
    assert re.fullmatch(r"[a-z/-]+:v?\d+\.\d+[\w.-]*", SERVICES[name]["image"])


def test_the_image_is_built_from_a_stage_with_the_projects_version():
    speech = SERVICES["speech"]
    assert speech["build"]["target"] in STAGES
    assert (COMPOSE_FILE.parent / speech["build"]["context"]).resolve() == ROOT
    kuberay = (ROOT / "configs/kuberay/rayservice.yaml").read_text(encoding="utf-8")
    tags = {speech["image"], *re.findall(r"image: (sambert-serve:\S+)", kuberay)}
    assert tags == {f"sambert-serve:{PROJECT['version']}", f"sambert-serve:{PROJECT['version']}-cuda"}


@pytest.mark.parametrize("name", SERVICES)
def test_mounts_come_from_files_that_exist_or_volumes_that_are_declared(name):
    for volume in SERVICES[name].get("volumes", ()):
        source = volume.split(":")[0]
        if source.startswith("."):
            assert (COMPOSE_FILE.parent / source).resolve().is_file(), source
        else:
            assert source in COMPOSE["volumes"]


def test_everything_is_published_on_loopback_once():
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert len({port.split(":")[1] for port in published}) == len(published)
    assert f"127.0.0.1:{SERVE['http_options']['port']}:{SERVE['http_options']['port']}" in published


def test_the_parts_find_each_other():
    command = " ".join(SERVICES["speech"]["command"])
    (job,) = PROMETHEUS["scrape_configs"]
    metrics_port = re.search(r"--metrics-export-port=(\d+)", command).group(1)
    assert job["static_configs"] == [{"targets": [f"speech:{metrics_port}"]}]
    assert "configs/compose/serve.yaml" in command
    settings = Settings.load(SERVE["applications"][0]["args"])
    redis = SERVICES["redis"]["command"]
    assert urlsplit(settings.cache.redis.url).hostname == "redis"
    assert redis[redis.index("--maxmemory") + 1] == "1gb"
    assert settings.cache.redis.max_bytes < 2**30
    mounts = {volume.split(":")[1] for service in SERVICES.values() for volume in service.get("volumes", ())}
    assert {f"/etc/prometheus/{path}" for path in PROMETHEUS["rule_files"]} <= mounts
    (source,) = yaml.safe_load((GRAFANA / "datasources.yaml").read_text(encoding="utf-8"))["datasources"]
    assert urlsplit(source["url"]).hostname in SERVICES
    (provider,) = yaml.safe_load((GRAFANA / "dashboards.yaml").read_text(encoding="utf-8"))["providers"]
    assert any(mount.startswith(provider["options"]["path"]) for mount in mounts)
