"""The description of the interface, and the page that shows it."""

import re

import jsonschema
import pytest
from test_ingress_http import SPEECH, TEXT

ROUTES = {
    (SPEECH, "post"), (f"{SPEECH}/with-timestamps", "post"), (f"{SPEECH}/batch", "post"), ("/tts", "post"),
    ("/stream_tts", "get"), ("/api/tts", "post"), ("/api/tasks/{task_id}", "get"), ("/api/audio/{name}", "get"),
    ("/v1/audio/voices", "get"), ("/v1/models", "get"), ("/v1/text/analysis", "post"), ("/healthz", "get"),
    ("/readyz", "get"),
}  # fmt: skip


@pytest.fixture
async def described(client):
    return (await client.get("/openapi.json")).json()


def schema_of(described, reply):
    return {**reply["content"]["application/json"]["schema"], "components": described["components"]}


async def test_every_route_is_described(described):
    found = {(path, method) for path, methods in described["paths"].items() for method in methods}
    assert found == ROUTES
    for path, method in ROUTES:
        operation = described["paths"][path][method]
        assert operation["summary"]
        assert operation["description"]
        assert operation["tags"]


async def test_every_error_has_the_one_shape_with_examples_that_fit(described):
    for methods in described["paths"].values():
        for operation in methods.values():
            assert "422" not in operation["responses"]
            errors = {status: reply for status, reply in operation["responses"].items() if status >= "400"}
            assert "500" in errors
            for reply in errors.values():
                schema = schema_of(described, reply)
                for example in reply["content"]["application/json"]["examples"].values():
                    jsonschema.validate({"error": {"param": None, **example["value"]["error"]}}, schema)


@pytest.mark.parametrize("body", [{"input": 1}, {"input": "！"}, {"input": "a", "voice": "x"}, {"input": "a" * 5000}])
async def test_errors_and_answers_fit_their_description(client, described, body):
    response = await client.post(SPEECH, json=body)
    reply = described["paths"][SPEECH]["post"]["responses"][str(response.status_code)]
    jsonschema.validate(response.json(), schema_of(described, reply))


@pytest.mark.parametrize("path", ["/v1/audio/voices", "/v1/models", "/healthz", "/readyz"])
async def test_answers_fit_their_description(client, described, path):
    reply = described["paths"][path]["get"]["responses"]["200"]
    jsonschema.validate((await client.get(path)).json(), schema_of(described, reply))


async def test_ranges_and_defaults_are_described(described):
    fields = described["components"]["schemas"]["SpeechBody"]["properties"]
    assert described["components"]["schemas"]["SpeechBody"]["required"] == ["input"]
    assert (fields["speed"]["minimum"], fields["speed"]["maximum"], fields["speed"]["default"]) == (0.25, 4, 1)
    assert (fields["pitch"]["minimum"], fields["pitch"]["maximum"]) == (-12, 12)
    assert fields["response_format"]["enum"] == ["mp3", "opus", "aac", "flac", "wav", "pcm"]
    assert fields["sample_rate"]["anyOf"][0]["enum"] == [8000, 16000, 22050, 24000, 44100, 48000]
    assert fields["input"]["minLength"] == 1
    assert all("description" in field for field in fields.values())


async def test_answer_types_are_described(client, described):
    contents = described["paths"][SPEECH]["post"]["responses"]["200"]["content"]
    for response_format in ("mp3", "opus", "aac", "flac", "wav", "pcm"):
        response = await client.post(SPEECH, json={"input": TEXT, "response_format": response_format})
        assert response.headers["content-type"] in contents


async def test_page_needs_nothing_from_elsewhere(client):
    response = await client.get("/docs")
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert not re.findall(r"https?://|//cdn|@import|<link[^>]+stylesheet|<script[^>]+src", response.text)
    assert 'fetch("openapi.json")' in response.text  # relative, so that it works under a route prefix
