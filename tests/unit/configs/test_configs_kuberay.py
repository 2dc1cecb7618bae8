"""The Kubernetes file: standard objects against Kubernetes' own schema, the rest against KubeRay's fields and sizes.

KubeRay's CRD is not part of this repository: the names of its fields below were read from its Go types, so a test here
finds misspelt or misplaced fields of a RayService, but not every rule that the operator applies to their values.
"""

from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from deployments.settings import Settings

ROOT = Path(__file__).parents[3]
DOCUMENTS = list(yaml.safe_load_all((ROOT / "configs/kuberay/rayservice.yaml").read_text(encoding="utf-8")))
SERVICE = DOCUMENTS[0]
CLUSTER = SERVICE["spec"]["rayClusterConfig"]
HEAD = CLUSTER["headGroupSpec"]
WORKERS = CLUSTER["workerGroupSpecs"]
GROUPS = {"head": HEAD} | {group["groupName"]: group for group in WORKERS}
SERVE = yaml.safe_load(SERVICE["spec"]["serveConfigV2"])
SETTINGS = Settings.load(SERVE["applications"][0]["args"])
STAGES = {name: getattr(SETTINGS, name).replicas for name in ("ingress", "normalizer", "acoustic", "vocoder")}
VERSION = kubernetes_validate.latest_version()
OF_SERVICE = {"serveConfigV2", "rayClusterConfig", "serveService", "upgradeStrategy", "rayClusterDeletionDelaySeconds"}
OF_CLUSTER = {
    "suspend", "managedBy", "autoscalerOptions", "headServiceAnnotations", "enableInTreeAutoscaling",
    "gcsFaultToleranceOptions", "headGroupSpec", "rayVersion", "workerGroupSpecs",
}  # fmt: skip
OF_HEAD = {"template", "headService", "enableIngress", "rayStartParams", "serviceType", "labels", "resources"}
OF_WORKERS = {
    "suspend", "groupName", "replicas", "minReplicas", "maxReplicas", "idleTimeoutSeconds", "rayStartParams",
    "template", "scaleStrategy", "numOfHosts", "labels", "resources",
}  # fmt: skip
OF_AUTOSCALER = {
    "resources", "image", "imagePullPolicy", "securityContext", "idleTimeoutSeconds", "upscalingMode", "env", "envFrom",
    "volumeMounts", "version",
}  # fmt: skip
OF_FAULT_TOLERANCE = {"redisUsername", "redisPassword", "externalStorageNamespace", "redisAddress"}


def container(group):
    (only,) = group["template"]["spec"]["containers"]
    return only


def node(group):
    """Cores and GPUs of one pod of a group."""
    limits = container(group)["resources"]["limits"]
    return float(limits["cpu"]), float(limits.get("nvidia.com/gpu", 0))


def group_of(replicas):
    """The group on which replicas of a stage land."""
    (name,) = [name for name, group in GROUPS.items() if group["labels"]["pool"] == replicas.label_selector["pool"]]
    return name


@pytest.mark.parametrize("document", DOCUMENTS[1:], ids=lambda document: document["kind"])
def test_standard_objects_fit_kubernetes_schema(document):
    kubernetes_validate.validate(document, VERSION, strict=True)


@pytest.mark.parametrize("name", GROUPS)
def test_pods_fit_kubernetes_schema(name):
    template = GROUPS[name]["template"]
    metadata = {"name": name, **template["metadata"]}
    kubernetes_validate.validate(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}, VERSION, strict=True
    )


def test_a_misspelt_key_of_a_pod_is_found():
    spec = {"containers": [{"name": "ray", "image": "x", "imagePullPolicies": "Always"}]}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}, VERSION, strict=True
        )


def test_the_rayservice_has_only_fields_of_kuberay():
    assert (SERVICE["apiVersion"], SERVICE["kind"]) == ("ray.io/v1", "RayService")
    assert set(SERVICE["spec"]) <= OF_SERVICE
    assert set(CLUSTER) <= OF_CLUSTER
    assert set(CLUSTER["autoscalerOptions"]) <= OF_AUTOSCALER
    assert CLUSTER["autoscalerOptions"]["upscalingMode"] in ("Default", "Aggressive", "Conservative")
    assert set(CLUSTER["gcsFaultToleranceOptions"]) <= OF_FAULT_TOLERANCE
    assert {"template", "rayStartParams"} <= set(HEAD) <= OF_HEAD
    for group in WORKERS:
        assert {"groupName", "minReplicas", "maxReplicas", "rayStartParams", "template"} <= set(group) <= OF_WORKERS
        assert 0 < group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    for group in GROUPS.values():
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
        assert "labels" not in group["rayStartParams"]  # Ray's autoscaler reads those of the group alone


def test_it_serves_what_the_cluster_config_says():
    assert yaml.safe_load((ROOT / "configs/cluster.yaml").read_text(encoding="utf-8")) == SERVE


def test_ray_is_the_pinned_one():
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert f"ray=={CLUSTER['rayVersion']}" in pins


@pytest.mark.parametrize("bound", ["min_replicas", "max_replicas"])
@pytest.mark.parametrize("name", [group["groupName"] for group in WORKERS])
def test_replicas_fit_their_group(name, bound):
    group = GROUPS[name]
    num_nodes = group["minReplicas" if bound == "min_replicas" else "maxReplicas"]
    here = [replicas for replicas in STAGES.values() if group_of(replicas) == name]
    assert here
    cpus, gpus = node(group)
    numbers = [getattr(replicas.autoscaling, bound) for replicas in here]
    assert sum(number * replicas.num_cpus for number, replicas in zip(numbers, here, strict=True)) <= cpus * num_nodes
    assert sum(number * replicas.num_gpus for number, replicas in zip(numbers, here, strict=True)) <= gpus * num_nodes
    for number, replicas in zip(numbers, here, strict=True):
        assert number <= (replicas.max_replicas_per_node or number) * num_nodes


def test_text_and_models_are_apart_and_the_head_holds_no_replica():
    assert {name: group_of(replicas) for name, replicas in STAGES.items()} == {
        "ingress": "text",
        "normalizer": "text",
        "acoustic": "models",
        "vocoder": "models",
    }
    assert HEAD["rayStartParams"]["num-cpus"] == "0"
    gpus = {name: node(group)[1] for name, group in GROUPS.items()}
    assert gpus == {"head": 0, "text": 0, "models": 1}


@pytest.mark.parametrize("name", GROUPS)
def test_pods_are_probed_bounded_and_no_root(name):
    pod = GROUPS[name]["template"]["spec"]
    ray = container(GROUPS[name])
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert f"--uid {pod['securityContext']['runAsUser']} " in (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert ray["securityContext"]["allowPrivilegeEscalation"] is False
    assert ray["resources"]["requests"] == ray["resources"]["limits"]
    assert {"livenessProbe", "readinessProbe"} <= set(ray)
    assert pod["terminationGracePeriodSeconds"] > max(stage.graceful_shutdown_timeout_s for stage in STAGES.values())
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in ray["volumeMounts"]} == volumes


@pytest.mark.parametrize("name", GROUPS)
def test_ports_are_those_that_ray_and_serve_listen_on(name):
    group = GROUPS[name]
    ports = {port["name"]: port["containerPort"] for port in container(group)["ports"]}
    assert ports["serve"] == SERVE["http_options"]["port"]
    assert str(ports["metrics"]) == group["rayStartParams"]["metrics-export-port"]
    assert SERVE["http_options"]["host"] == "0.0.0.0"


def test_every_group_has_a_disruption_budget_of_its_own():
    budgets = [document for document in DOCUMENTS if document["kind"] == "PodDisruptionBudget"]
    chosen = [budget["spec"]["selector"]["matchLabels"].items() for budget in budgets]
    labels = {name: group["template"]["metadata"]["labels"].items() for name, group in GROUPS.items()}
    assert [sum(wanted <= own for wanted in chosen) for own in labels.values()] == [1] * len(GROUPS)
    for group in WORKERS:
        assert group["minReplicas"] > 1  # a budget that lets one go must leave one


def test_redis_is_where_cache_and_head_look_for_it():
    named = {document["metadata"]["name"]: document for document in DOCUMENTS if document["kind"] == "Service"}
    (service,) = named.values()
    name, port = service["metadata"]["name"], service["spec"]["ports"][0]["port"]
    assert SETTINGS.cache.redis.url == f"redis://{name}:{port}/0"
    assert CLUSTER["gcsFaultToleranceOptions"]["redisAddress"] == f"{name}:{port}"
    (redis,) = [document for document in DOCUMENTS if document["kind"] == "Deployment"]
    assert redis["spec"]["template"]["metadata"]["labels"] == service["spec"]["selector"]
    assert SETTINGS.cache.redis.max_bytes < 6 * 2**30  # its --maxmemory
    claims = {document["metadata"]["name"] for document in DOCUMENTS if document["kind"] == "PersistentVolumeClaim"}
    used = {
        volume["persistentVolumeClaim"]["claimName"]
        for group in GROUPS.values()
        for volume in group["template"]["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    }
    assert used == claims
