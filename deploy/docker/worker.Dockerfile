# diloco-worker for the CPU, with Debian's LibTorch. From the top of the repository:
#   docker build -f deploy/docker/worker.Dockerfile -t diloco-worker:0.1.0 .
ARG BASE=debian:12-slim

FROM ${BASE} AS build
WORKDIR /source
COPY deploy/install.sh deploy/docker/packages-build.txt deploy/docker/packages-build-libtorch.txt deploy/
RUN ["deploy/install.sh", "deploy/packages-build.txt"]
RUN ["deploy/install.sh", "deploy/packages-build-libtorch.txt"]
COPY . .
RUN ["cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DBUILD_TESTING=OFF"]
RUN --mount=type=cache,target=/root/.cache/ccache cmake --build build --target diloco-worker

FROM ${BASE}
COPY deploy/install.sh deploy/docker/packages-worker.txt /usr/local/share/diloco/
RUN /usr/local/share/diloco/install.sh /usr/local/share/diloco/packages-worker.txt && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --user-group --home-dir /var/lib/diloco --create-home --shell /usr/sbin/nologin diloco
COPY --from=build /source/build/bin/diloco-worker /usr/local/bin/
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="diloco-worker" \
      org.opencontainers.image.description="Trains a model in one datacenter and exchanges outer gradients; CPU" \
      org.opencontainers.image.source="https://github.com/diloco/diloco" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
USER 10001:10001
EXPOSE 7071
ENTRYPOINT ["/usr/local/bin/diloco-worker"]
