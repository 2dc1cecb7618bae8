"""What the settings of all stages are made of: groups that refuse unknown keys, replicas, batching."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from deployments.errors import ConfigurationInvalid

PositiveSeconds = Annotated[float, Field(gt=0)]
Seconds = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]


class Strict(BaseModel):
    """Unknown keys are refused; a group that is given in part keeps its own defaults for the rest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, raw: Any) -> Any:
        """Defaults of a group may differ by where it stands: those of the place hold, not those of its class."""
        if not isinstance(raw, dict):
            return raw
        fields = cls.model_fields
        return {key: _over(fields[key].default, value) if key in fields else value for key, value in raw.items()}


def _over(default: Any, raw: Any) -> Any:
    """What is given, with the rest of the default of a group."""
    if not (isinstance(default, BaseModel) and isinstance(raw, dict)):
        return raw
    own = {key: getattr(default, key) for key in type(default).model_fields}
    return own | {key: _over(own.get(key), value) for key, value in raw.items()}


class Autoscaling(Strict):
    """When Ray Serve adds and removes replicas of a stage."""

    min_replicas: Annotated[int, Field(ge=0)] = Field(1, description="Never fewer replicas than this.")
    max_replicas: Count = Field(1, description="Never more replicas than this.")
    target_ongoing_requests: Annotated[float, Field(gt=0)] = Field(
        8.0, description="Requests in progress per replica that the autoscaler aims at."
    )
    upscale_delay_s: Seconds = Field(5.0, description="How long load must stay high before a replica is added.")
    downscale_delay_s: Seconds = Field(120.0, description="How long load must stay low before a replica is removed.")

    @model_validator(mode="after")
    def _ordered(self) -> Autoscaling:
        if self.min_replicas > self.max_replicas:
            raise ValueError("min_replicas is greater than max_replicas; raise max_replicas or lower min_replicas")
        return self


class Replicas(Strict):
    """Resources and number of the replicas of one stage."""

    num_cpus: Annotated[float, Field(ge=0)] = Field(0.25, description="CPU cores Ray reserves per replica.")
    num_gpus: Annotated[float, Field(ge=0)] = Field(0.0, description="GPUs (or a fraction) Ray reserves per replica.")
    label_selector: dict[str, str] = Field(
        {}, description='Labels of the nodes that replicas may run on: a value, "!value", "in(a,b)" or "!in(a,b)".'
    )
    max_replicas_per_node: Annotated[int, Field(ge=1, le=100)] | None = Field(
        None, description="Replicas on one node at most; None: as many as fit."
    )
    autoscaling: Autoscaling = Field(Autoscaling(), description="Bounds and pace of autoscaling.")
    max_ongoing_requests: Count = Field(64, description="Requests one replica works on at once.")
    max_queued_requests: Annotated[int, Field(ge=-1)] = Field(
        256, description="Requests that may wait for a replica per caller; more are refused (-1: no limit)."
    )
    health_check_period_s: PositiveSeconds = Field(10.0, description="Seconds between health checks.")
    health_check_timeout_s: PositiveSeconds = Field(30.0, description="Seconds a health check may take.")
    graceful_shutdown_timeout_s: Seconds = Field(
        20.0, description="Seconds a stopping replica has for work in progress."
    )


class Batching(Strict):
    """How a stage groups work. All of it may be changed on a live service through user_config."""

    max_batch_size: Count = Field(16, description="Items that run together at most.")
    max_batch_cost: Count = Field(
        4096,
        description="Padded size of a batch at most: items times the longest (tokens in acoustic, frames in vocoder).",
    )
    batch_wait_s: Seconds = Field(0.0, description="How long the collector waits for company when the model is free.")
    batch_timeout_s: PositiveSeconds = Field(
        30.0, description="A batch (acoustic: a step) that runs longer is given up: its requests get 504."
    )
    priority_s: Seconds = Field(
        2.0, description="A segment gives way to requests that arrive up to this much later per segment before it."
    )
    max_priority_s: Seconds = Field(8.0, description="It gives way for this long at most: no segment waits for ever.")
    max_timeouts: Count = Field(3, description="Timeouts in a row after which the replica reports itself unhealthy.")

    def changed(self, user_config: dict[str, Any]) -> Batching:
        """These settings with what a `user_config` changes.

        Raises:
            ConfigurationInvalid: A key is unknown or a value is out of range.
        """
        try:
            change = _UserConfig.model_validate(user_config).batching
            return Batching.model_validate(self.model_dump() | change)
        except ValidationError as error:
            raise explain(error, "user_config") from error


class _UserConfig(Strict):
    """What `user_config` of Acoustic and Vocoder may say."""

    batching: dict[str, Any] = Field({}, description="Keys of Batching to change.")


def explain(error: ValidationError, root: str = "settings") -> ConfigurationInvalid:
    """One error that names every key at fault, from pydantic's report."""
    faults = []
    for fault in error.errors(include_url=False):
        key = ".".join(str(part) for part in fault["loc"]) or root
        if fault["type"] == "extra_forbidden":
            faults.append(f"{key}: no such setting; remove it or mend its spelling (README, Configuration)")
        elif fault["type"] == "value_error":  # of a whole group; the message says which of its keys do not fit
            faults.append(f"{key}: {fault['ctx']['error']}")
        else:
            faults.append(f"{key}: {fault['msg']} (got {fault.get('input')!r})")
    first_key = ".".join(str(part) for part in error.errors()[0]["loc"]) or None
    return ConfigurationInvalid("Configuration invalid. " + "; ".join(faults) + ".", param=first_key)
