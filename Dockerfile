# One image for every role: `gavel serve`, `gavel worker`, `gavel migrate`, `gavel up`.

FROM rust:1.95-slim-bookworm AS builder
WORKDIR /src
# For jemalloc, which is built from its source.
RUN apt-get update && apt-get install -y --no-install-recommends make && rm -rf /var/lib/apt/lists/*
COPY . .
# The caches outlive the layer, so that a change of the code doesn't build every dependency again.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --profile dist --locked --bin gavel \
    && cp target/dist/gavel /usr/local/bin/gavel

FROM debian:bookworm-slim AS runtime
# The judge is reached over TLS.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --create-home --home-dir /var/lib/gavel gavel
COPY --from=builder /usr/local/bin/gavel /usr/local/bin/gavel
USER gavel
# `gavel up` keeps ./gavel-data here; the other roles write nothing.
WORKDIR /var/lib/gavel
EXPOSE 8080
# Asks the API in this container; docker-compose.yml has another one for workers, and none for `migrate`.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["gavel", "healthcheck"]
ENTRYPOINT ["gavel"]
CMD ["serve"]
