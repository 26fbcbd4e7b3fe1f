# diloco-coordinator, and dilococtl beside it. From the top of the repository:
#   docker build -f deploy/docker/coordinator.Dockerfile -t diloco-coordinator:0.1.0 .
ARG BASE=debian:12-slim

FROM ${BASE} AS build
WORKDIR /source
COPY deploy/install.sh deploy/docker/packages-build.txt deploy/
RUN ["deploy/install.sh", "deploy/packages-build.txt"]
COPY . .
RUN ["cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DDILOCO_LIBTORCH=none", "-DBUILD_TESTING=OFF"]
RUN --mount=type=cache,target=/root/.cache/ccache cmake --build build --target diloco-coordinator dilococtl

FROM ${BASE}
COPY deploy/install.sh deploy/docker/packages-coordinator.txt /usr/local/share/diloco/
RUN /usr/local/share/diloco/install.sh /usr/local/share/diloco/packages-coordinator.txt && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --user-group --home-dir /var/lib/diloco --create-home --shell /usr/sbin/nologin diloco
COPY --from=build /source/build/bin/diloco-coordinator /source/build/bin/dilococtl /usr/local/bin/
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="diloco-coordinator" \
      org.opencontainers.image.description="Averages what the workers of a run send and publishes the averages" \
      org.opencontainers.image.source="https://github.com/diloco/diloco" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
USER 10001:10001
EXPOSE 7070 7071
ENTRYPOINT ["/usr/local/bin/diloco-coordinator"]
