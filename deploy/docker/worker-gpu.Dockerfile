# diloco-worker for NVIDIA GPUs. From the top of the repository:
#   docker build -f deploy/docker/worker-gpu.Dockerfile -t diloco-worker-gpu:0.1.0 .
# LibTorch is that of PyPI's wheel, which brings the CUDA libraries that it was built with; so the base needs none, and
# one with CUDA would only hold a second copy. The driver is the node's, put in by NVIDIA's container toolkit.
ARG BASE=debian:12-slim

FROM ${BASE} AS build
ARG TORCH_VERSION=2.15.0
WORKDIR /source
COPY deploy/install.sh deploy/docker/packages-build.txt deploy/docker/packages-build-wheel.txt deploy/
RUN ["deploy/install.sh", "deploy/packages-build.txt"]
RUN ["deploy/install.sh", "deploy/packages-build-wheel.txt"]
RUN ["python3", "-m", "venv", "/opt/libtorch"]
RUN /opt/libtorch/bin/pip install --no-cache-dir torch==${TORCH_VERSION}
COPY . .
RUN ["cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DBUILD_TESTING=OFF", \
     "-DDILOCO_LIBTORCH=/opt/libtorch/lib/python3.11/site-packages/torch"]
RUN --mount=type=cache,target=/root/.cache/ccache cmake --build build --target diloco-worker

FROM ${BASE}
COPY deploy/install.sh deploy/docker/packages-worker-gpu.txt /usr/local/share/diloco/
RUN /usr/local/share/diloco/install.sh /usr/local/share/diloco/packages-worker-gpu.txt && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --user-group --home-dir /var/lib/diloco --create-home --shell /usr/sbin/nologin diloco
# At the same path: the program and LibTorch find their libraries by it.
COPY --from=build /opt/libtorch/lib/python3.11/site-packages/nvidia /opt/libtorch/lib/python3.11/site-packages/nvidia
COPY --from=build /opt/libtorch/lib/python3.11/site-packages/torch/lib /opt/libtorch/lib/python3.11/site-packages/torch/lib
COPY --from=build /source/build/bin/diloco-worker /usr/local/bin/
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="diloco-worker-gpu" \
      org.opencontainers.image.description="Trains a model in one datacenter and exchanges outer gradients; NVIDIA GPUs" \
      org.opencontainers.image.source="https://github.com/diloco/diloco" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
USER 10001:10001
EXPOSE 7071
ENTRYPOINT ["/usr/local/bin/diloco-worker"]
