"""A hub on the loopback interface that answers the requests of the real modelscope client, with faults on demand."""

import hashlib
import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Files = dict[str, bytes]


class Hub:
    """Repositories by (model id, revision); what was asked is in `listings`, `downloads` and `ranges`."""

    def __init__(self) -> None:
        self.repositories: dict[tuple[str, str], Files] = {}
        self.faults: dict[str, list[str]] = {}  # by file (or "listing"): what the next answers do wrong, in order
        self.listings = 0
        self.downloads: Counter[str] = Counter()
        self.ranges: list[str] = []
        self.started = threading.Event()  # set when the first file is asked for
        self.released = threading.Event()  # files wait for this
        self.released.set()
        self._lock = threading.Lock()
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                hub.answer(self)

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> "Hub":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def asked(self) -> int:
        return self.listings + self.downloads.total()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        url = urlsplit(request.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        parts = url.path.removeprefix("/api/v1/").split("/")
        if parts[0] != "models" or len(parts) < 4:
            send_json(request, 404, {"Code": 404, "Message": "no such page", "Success": False})
            return
        files = self.repositories.get(("/".join(parts[1:3]), query.get("Revision", "master")))
        if files is None:
            send_json(request, 404, {"Code": 10010205001, "Message": "record not found", "Success": False})
        elif parts[3:] == ["repo", "files"]:
            self._list(request, files)
        elif parts[3:] == ["repo"]:
            self._send_file(request, query["FilePath"], files)

    def _fault(self, name: str) -> str:
        with self._lock:
            pending = self.faults.get(name, [])
            return pending.pop(0) if pending else ""

    def _list(self, request: BaseHTTPRequestHandler, files: Files) -> None:
        with self._lock:
            self.listings += 1
        fault = self._fault("listing")
        if fault:
            send_json(request, int(fault), {"Code": int(fault), "Message": "refused", "Success": False})
            return
        folders = {path.rpartition("/")[0] for path in files if "/" in path}
        entries: list[dict[str, Any]] = [{"Path": path, "Type": "tree", "Size": 0} for path in sorted(folders)]
        entries += [
            {"Path": path, "Type": "blob", "Size": len(body), "Sha256": hashlib.sha256(body).hexdigest()}
            for path, body in files.items()
        ]
        send_json(request, 200, {"Code": 200, "Success": True, "Data": {"Files": entries}})

    def _send_file(self, request: BaseHTTPRequestHandler, path: str, files: Files) -> None:
        with self._lock:
            self.downloads[path] += 1
        self.started.set()
        self.released.wait()
        fault = self._fault(path)
        if path not in files or fault == "missing":
            send_json(request, 404, {"Code": 404, "Message": "no such file", "Success": False})
            return
        body = files[path]
        if fault == "corrupt":
            body = bytes(byte ^ 1 for byte in body)
        elif fault == "short":
            body = body[:-1]
        start = 0
        asked = request.headers.get("Range")
        if asked:
            with self._lock:
                self.ranges.append(f"{path} {asked}")
            start = int(asked.removeprefix("bytes=").split("-")[0])
        request.send_response(206 if asked else 200)
        if asked:
            request.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        request.send_header("Content-Length", str(len(body) - start))
        request.end_headers()
        if fault == "cut":
            request.wfile.write(body[start : start + (len(body) - start) // 2])
            request.close_connection = True
        else:
            request.wfile.write(body[start:])


def send_json(request: BaseHTTPRequestHandler, status: int, content: Any) -> None:
    body = json.dumps(content).encode()
    request.send_response(status)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)
