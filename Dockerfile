# syntax=docker/dockerfile:1
# docker build --target cpu  -t sambert-serve:0.1.0 .
# docker build --target cuda -t sambert-serve:0.1.0-cuda .
# docker build --target baked --build-arg CONFIG=configs/mine.yaml -t sambert-serve:0.1.0-mine .   (its voices are inside)
FROM python:3.11-slim-bookworm AS base
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 \
    VIRTUAL_ENV=/opt/venv PATH=/opt/venv/bin:$PATH \
    RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH=deployments.ingress.front:layers
# wget: KubeRay's own probes; libgomp1: the runtimes' threads
RUN apt-get update && apt-get install --yes --no-install-recommends libgomp1 wget && rm -rf /var/lib/apt/lists/*
# models, caches and tasks lie in one folder, which a volume takes over with its owner
RUN useradd --uid 10001 --create-home sambert \
    && install --directory --owner sambert --group sambert /home/sambert/.cache /home/sambert/.cache/sambert-serve

FROM base AS source
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE graph.py ./
COPY deployments deployments

FROM source AS install-cpu
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN python -m venv /opt/venv
RUN pip install --constraint constraints.txt --index-url ${TORCH_INDEX} --extra-index-url https://pypi.org/simple torch
RUN pip install --constraint constraints.txt ".[tracing]"

FROM source AS install-cuda
RUN python -m venv /opt/venv
RUN pip install --constraint constraints.txt ".[tracing]"
# the GPU's onnxruntime takes the place of the CPU's; its version is the pinned one
RUN version=$(grep --only-matching --perl-regexp '^onnxruntime==\K.*' constraints.txt) \
    && pip uninstall --yes onnxruntime && pip install --no-deps "onnxruntime-gpu==${version}"

FROM base AS runtime
WORKDIR /app
COPY configs configs
EXPOSE 8000 8080 8265
HEALTHCHECK --start-period=180s --interval=15s --timeout=6s --retries=4 \
    CMD wget --quiet --tries=1 --timeout=5 --output-document=- http://127.0.0.1:8000/readyz

FROM runtime AS cuda
# torch.compile builds kernels with a C compiler
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY --from=install-cuda /opt/venv /opt/venv
USER 10001
VOLUME /home/sambert/.cache/sambert-serve
CMD ["sambert-serve", "serve", "configs/gpu.yaml"]

FROM runtime AS installed-cpu
COPY --from=install-cpu /opt/venv /opt/venv
USER 10001

# with the voices of a config inside: no volume, no download at start-up
FROM installed-cpu AS baked
ARG CONFIG=configs/cpu.yaml
RUN sambert-serve voices download --config ${CONFIG} && sambert-serve voices verify --config ${CONFIG}
ENV SAMBERT_CONFIG=${CONFIG}
CMD ["sh", "-c", "exec sambert-serve serve ${SAMBERT_CONFIG}"]

FROM installed-cpu AS cpu
VOLUME /home/sambert/.cache/sambert-serve
CMD ["sambert-serve", "serve", "configs/cpu.yaml"]
