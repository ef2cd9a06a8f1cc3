# One image for every role: `gavel serve`, `gavel worker`, `gavel migrate`, `gavel up`.

FROM rust:1.95-slim-bookworm AS builder
WORKDIR /src
# For building jemalloc.
RUN apt-get update && apt-get install -y --no-install-recommends make && rm -rf /var/lib/apt/lists/*
COPY . .
# The caches outlive the layer, so that a code change doesn't rebuild every dependency.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --profile dist --locked --bin gavel \
    && cp target/dist/gavel /usr/local/bin/gavel

FROM debian:bookworm-slim AS runtime
# For TLS to judges.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --create-home --home-dir /var/lib/gavel gavel
COPY --from=builder /usr/local/bin/gavel /usr/local/bin/gavel
USER gavel
# `gavel up` stores ./gavel-data here; the other roles write nothing.
WORKDIR /var/lib/gavel
EXPOSE 8080
# Checks the API in this container; docker-compose.yml overrides it for workers and disables it for `migrate`.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["gavel", "healthcheck"]
ENTRYPOINT ["gavel"]
CMD ["serve"]
