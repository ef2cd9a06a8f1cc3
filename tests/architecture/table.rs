//! The tables of the architecture: who may import whom, which crate may be named where. Data only.

use May::{All, Only};

/// What a module may name of another one.
pub(crate) enum May {
    /// Anything public.
    All(&'static str),
    /// These paths below the module, by name.
    Only(&'static str, &'static [&'static str]),
}

/// What the store keeps for the judge: the trait it implements, its rows, and what a gate knows.
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

/// What history builds a stored session of, and what a misspelled key meant.
const SESSION: May = Only("score", &["hint", "session"]);

/// Each top-level module in flow order, and what it may import besides [`SHELL`].
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
            // JSON as other tools write it.
            Only("score", &["JsonError", "parse_json", "readable_json"]),
        ],
    ),
    ("events", &[All("job"), All("redis_client")]),
    (
        "suite",
        &[All("job"), All("score"), All("report"), All("wire")],
    ),
    ("api", FRONT),
    // The pages call the API's functions and its in-process client, and read a job's nouns.
    (
        "dashboard",
        &[
            All("api"),
            All("job"),
            All("wire"),
            Only("history", &["examples"]),
            // What a kind says of itself.
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
    // Packages below `crates/`, which the root names as modules. Cargo holds what they may import.
    ("wire", &[]),
    ("client", &[]),
    ("score", &[]),
    ("outbound", &[]),
    ("judge", &[]),
    ("redis_client", &[]),
    ("clock", &[]),
];

/// What the API may import: never a judge, a queue or a worker.
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

/// The shell, which every module may import but those that are pure.
pub(crate) const SHELL: &[&str] = &[
    "clock",
    "config",
    "lifecycle",
    "memory",
    "outbound",
    "telemetry",
];
pub(crate) const PURE: &[&str] = &["job"];

/// Crates that may be named in some places only; a place is a path below `src/`, without `.rs`.
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
    // Everybody else names them by their place at the root.
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

/// What is pure.
pub(crate) const PURE_FOLDERS: &[&str] = &[
    "crates/gavel-rules/",
    "crates/query-shape/",
    "crates/row-match/",
];

/// What they may not name: the beginnings of paths, and single words.
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

/// File names that say nothing.
pub(crate) const EMPTY_NAMES: &[&str] = &[
    "common", "helper", "helpers", "manager", "misc", "service", "types", "util", "utils",
];

/// Dependencies that every Rust reader knows; each other one says what it is for.
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
