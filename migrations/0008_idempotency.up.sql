create table idempotency_keys (
    key_hash text primary key,
    request_hash text not null,
    effect_id uuid not null,
    holder uuid not null,
    locked_until timestamptz not null,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    status bigint,
    headers jsonb,
    body text
);
create index idempotency_keys_expires on idempotency_keys (expires_at);
