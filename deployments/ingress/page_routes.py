"""The web page at /: its files as they lie in the folder page, with headers that let it load nothing from elsewhere."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources
from pathlib import PurePath

from fastapi import APIRouter, Request
from starlette.responses import Response

from deployments.errors import NotFound

INDEX = "index.html"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
# docs.html is the page of /docs
NOT_SERVED = frozenset({"docs.html"})
SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file of the page.

    Attributes:
        body: Its bytes.
        media_type: For the header content-type.
        etag: Changes with the bytes.
    """

    body: bytes
    media_type: str
    etag: str


def routes() -> APIRouter:
    """The routes of the page: / and the files that it loads, all read once."""
    router = APIRouter()
    files = read_files()

    @router.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        """The page."""
        return _answer(files[INDEX], request)

    @router.get("/page/{name}", include_in_schema=False)
    async def page_file(name: str, request: Request) -> Response:
        """A file that the page loads."""
        if name not in files:
            raise NotFound(f"The page has no file {name!r}.")
        return _answer(files[name], request)

    return router


def read_files() -> dict[str, PageFile]:
    """The files of the page by name."""
    found = {}
    for file in resources.files(__package__).joinpath("page").iterdir():
        media_type = MEDIA_TYPES.get(PurePath(file.name).suffix)
        if media_type and file.name not in NOT_SERVED:
            body = file.read_bytes()
            found[file.name] = PageFile(body, media_type, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
    return found


def _answer(file: PageFile, request: Request) -> Response:
    """The file, or 304 when the browser has these bytes; it asks every time, so that an update is seen at once."""
    headers = {**SECURITY_HEADERS, "etag": file.etag, "cache-control": "no-cache"}
    known = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
    if file.etag in known:
        return Response(status_code=304, headers=headers)
    return Response(file.body, media_type=file.media_type, headers=headers)
