//! Architecture rules: allowed imports of modules and allowed uses of crates. Only data.

use May::{All, Only};

pub(crate) enum May {
    All(&'static str),
    Only(&'static str, &'static [&'static str]),
}

/// Items of the judge used by the store: the trait it implements, its rows, and gate snapshots.
const JUDGE_ROWS: May = Only(
    "judge",
    &[
        "ErrorClass",
        "JudgeError",
        "Question",
        "Reply",
        "CacheKey",
        "CallLog",
        "CallRecord",
        "CallUsage",
        "gate::HeldBack",
        "gate::GateSnapshot",
        "gate::MeterSnapshot",
        "gate::PaceSnapshot",
        "gate::Sharing",
    ],
);

/// Types of stored sessions for history, and hints for misspelled keys.
const SESSION: May = Only("score", &["hint", "nearest", "session"]);

/// Top-level modules in flow order, with their allowed imports in addition to [`SHELL`].
pub(crate) const IMPORTS: &[(&str, &[May])] = &[
    ("job", &[]),
    (
        "enqueue",
        &[
            All("job"),
            All("queue"),
            All("score"),
            All("store"),
            All("events"),
            All("wire"),
            Only("history", &["on_demand"]),
            Only(
                "judge",
                &["JudgeSpec", "Nonce", "NotConfigured", "Providers"],
            ),
        ],
    ),
    ("queue", &[All("job"), All("redis_client")]),
    (
        "worker",
        &[
            All("wire"),
            All("job"),
            All("queue"),
            All("judge"),
            All("score"),
            All("store"),
            All("events"),
        ],
    ),
    (
        "store",
        &[All("job"), All("wire"), All("score"), JUDGE_ROWS],
    ),
    (
        "history",
        &[
            All("store"),
            All("job"),
            All("wire"),
            SESSION,
            // JSON as written by other tools.
            Only(
                "score",
                &["JsonError", "parse_json", "parse_python", "readable_json"],
            ),
        ],
    ),
    ("events", &[All("job"), All("redis_client")]),
    (
        "suite",
        &[All("job"), All("score"), All("report"), All("wire")],
    ),
    ("api", FRONT),
    // Pages call the API's functions and its in-process client, and use the types of jobs.
    (
        "dashboard",
        &[
            All("api"),
            All("job"),
            All("wire"),
            Only("history", &["examples"]),
            Only("score", &["about"]),
        ],
    ),
    (
        "report",
        &[All("job"), All("score"), All("store"), All("wire")],
    ),
    (
        "app",
        &[
            All("api"),
            All("client"),
            All("dashboard"),
            All("enqueue"),
            All("events"),
            All("history"),
            All("job"),
            All("judge"),
            All("queue"),
            All("redis_client"),
            All("report"),
            All("score"),
            All("store"),
            All("suite"),
            All("worker"),
        ],
    ),
    (
        "cli",
        &[
            All("wire"),
            All("app"),
            All("enqueue"),
            All("job"),
            All("score"),
            All("store"),
            All("report"),
            All("suite"),
            All("client"),
            All("history"),
        ],
    ),
    ("main", &[All("cli")]),
    (
        "config",
        &[
            All("job"),
            All("wire"),
            Only("score", &["about", "nearest"]),
        ],
    ),
    ("lifecycle", &[]),
    ("memory", &[]),
    ("telemetry", &[]),
    // Packages below `crates/`, re-exported by the root as modules. Cargo restricts their imports.
    ("wire", &[]),
    ("client", &[]),
    ("score", &[]),
    ("outbound", &[]),
    ("judge", &[]),
    ("redis_client", &[]),
    ("clock", &[]),
];

/// Allowed imports of the API, which must not depend on a judge, a queue or a worker.
const FRONT: &[May] = &[
    All("wire"),
    All("enqueue"),
    All("job"),
    All("score"),
    All("store"),
    All("report"),
    All("history"),
    All("suite"),
    All("events"),
];

/// Shell modules, which every module except pure ones may import.
pub(crate) const SHELL: &[&str] = &[
    "clock",
    "config",
    "lifecycle",
    "memory",
    "outbound",
    "telemetry",
];
pub(crate) const PURE: &[&str] = &["job"];

/// Crates with restricted use; a location is a path below `src/`, without `.rs`.
pub(crate) const CRATES: &[(&[&str], &[&str])] = &[
    (
        &["axum", "utoipa_axum", "utoipa_swagger_ui"],
        &["api", "dashboard"],
    ),
    (&["sqlx"], &["store"]),
    (&["apalis", "apalis_core"], &["queue", "worker"]),
    (&["redis"], &["queue", "events"]),
    (&["reqwest"], &["history", "suite"]),
    (
        &[
            "clap",
            "clap_complete",
            "anyhow",
            "indicatif",
            "comfy_table",
        ],
        &["cli"],
    ),
    (&["tracing_subscriber"], &["telemetry"]),
    (&["query_shape", "row_match"], &[]),
    // Other modules use the root's re-exports.
    (&["gavel_wire"], &["lib", "job"]),
    (
        &[
            "gavel_client",
            "gavel_clock",
            "gavel_judge",
            "gavel_outbound",
            "gavel_redis",
            "gavel_rules",
        ],
        &["lib"],
    ),
];

pub(crate) const PURE_FOLDERS: &[&str] = &[
    "crates/gavel-rules/",
    "crates/query-shape/",
    "crates/row-match/",
];

/// Forbidden names in pure folders: path prefixes, and single identifiers.
pub(crate) const IMPURE_PATHS: &[&str] = &[
    "tokio",
    "futures",
    "async_trait",
    "fastrand",
    "tracing",
    "metrics",
    "std::env",
    "std::fs",
    "std::io",
    "std::net",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
];
pub(crate) const IMPURE_WORDS: &[&str] = &["async", "await", "now", "now_v7", "new_v4"];

pub(crate) const GENERIC_NAMES: &[&str] = &[
    "common", "helper", "helpers", "manager", "misc", "service", "types", "util", "utils",
];

/// Well-known dependencies; all others need a comment with their purpose.
pub(crate) const WELL_KNOWN: &[&str] = &[
    "async-trait",
    "axum",
    "chrono",
    "clap",
    "clap_complete",
    "metrics",
    "reqwest",
    "serde",
    "serde_json",
    "sqlx",
    "thiserror",
    "tokio",
    "tower",
    "tower-http",
    "tracing",
    "tracing-subscriber",
    "utoipa",
    "utoipa-axum",
    "uuid",
];
