//! Checks the allowed imports of modules, the allowed uses of crates, and conventions of the source tree, in the source text.
//!
//! The rules are in `architecture/table.rs`; change them first. Test items inside `src/` are exempt.
#![expect(clippy::expect_used, reason = "a test may fail loudly")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

#[path = "architecture/circles.rs"]
mod circles;
#[path = "architecture/source.rs"]
mod source;
#[path = "architecture/table.rs"]
mod table;

use table::May::{self, All, Only};
use table::{
    CRATES, GENERIC_NAMES, IMPORTS, IMPURE_PATHS, IMPURE_WORDS, PURE, PURE_FOLDERS, SHELL,
    WELL_KNOWN,
};

struct File {
    /// Relative to the crate's root, with `/`.
    path: String,
    text: String,
}

#[test]
fn modules_import_only_allowed_modules() {
    none(of_src(import_violations));
}

#[test]
fn crates_are_used_only_where_allowed() {
    none(of_src(crate_violations));
}

#[test]
fn scoring_is_pure() {
    let files = ["src", "crates"].into_iter().flat_map(files);
    none(
        files
            .flat_map(|file| purity_violations(&file.path, &file.text))
            .collect(),
    );
}

#[test]
fn cycles_have_at_most_two_files() {
    let mut packages: BTreeMap<String, Vec<File>> = BTreeMap::new();
    for file in ["src", "crates"].into_iter().flat_map(files) {
        if let Some((package, _)) = file.path.split_once("src/")
            && !is_test(&file.path)
        {
            packages.entry(package.to_owned()).or_default().push(file);
        }
    }
    let faults = packages
        .values()
        .flat_map(|files| circles::cycle_violations(files));
    none(faults.collect());
}

#[test]
fn root_has_no_reexports() {
    let root = read("src/lib.rs");
    let tokens = source::tokens(&root);
    let pairs = tokens.iter().zip(tokens.iter().skip(1));
    // Our packages are re-exported as modules.
    let imports = pairs
        .filter(|(token, next)| token.text == "use" && !next.text.starts_with("gavel_"))
        .map(|(token, _)| {
            format!(
                "src/lib.rs:{}: a re-export at the root hides who imports whom",
                token.line
            )
        });
    none(imports.collect());
}

#[test]
fn file_names_are_specific() {
    let files = ["src", "crates", "tests"].into_iter().flat_map(files);
    none(
        files
            .filter(|file| {
                let stem = file.path.trim_end_matches(".rs");
                stem.split('/').any(|part| GENERIC_NAMES.contains(&part))
            })
            .map(|file| {
                format!(
                    "{}: name it for the noun or the step that it holds",
                    file.path
                )
            })
            .collect(),
    );
}

#[test]
fn dependencies_have_a_purpose_comment() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let packages = fs::read_dir(root.join("crates")).expect("there are packages");
    let packages = packages.map(|package| package.expect("the folder can be read").path());
    for package in packages.chain([root.to_path_buf()]) {
        let manifest = package.join("Cargo.toml");
        none(dependency_violations(
            &fs::read_to_string(&manifest).expect("a package has a manifest"),
        ));
    }
}

#[test]
fn forbidden_import_is_detected() {
    let planted = |path: &str, text: &str| import_violations(path, text);
    for (path, text, line) in [
        ("src/queue/mod.rs", "//! x\n\nuse crate::store::Store;", 3),
        (
            "src/store/calls.rs",
            "use crate::judge::{\n    CallRecord,\n    ask::Judge,\n};",
            3,
        ),
        ("src/store/mod.rs", "use crate::judge;", 1),
        ("src/store/mod.rs", "use crate::judge::*;", 1),
        ("src/queue/mod.rs", "use super::store::Store;", 1),
        ("src/job/mod.rs", "use crate::clock::Clock;", 1),
        (
            "src/api/jobs/mod.rs",
            "fn f() {\n    crate::judge::Judges::new();\n}",
            2,
        ),
        ("src/enqueue.rs", "use {std::fs, crate::judge::Judge};", 1),
        (
            "src/queue/redis.rs",
            "type S = super::super::store::Store;",
            1,
        ),
        (
            "src/store/judges.rs",
            "use crate::judge::gate::{Gate, GateSnapshot};",
            1,
        ),
        ("src/main.rs", "fn main() { gavel::app::run(); }", 1),
        ("src/attic/mod.rs", "//! no line in the table", 1),
    ] {
        let faults = planted(path, text);
        assert_eq!(faults.len(), 1, "{path}: {text:?} gave {faults:?}");
        let place = format!("{path}:{line}: ");
        assert!(
            faults[0].starts_with(&place),
            "{} isn't at {place}",
            faults[0]
        );
    }
}

#[test]
fn forbidden_crate_is_detected() {
    for (path, text) in [
        ("src/api/mod.rs", "use sqlx::PgPool;"),
        ("src/api/mod.rs", "use {std::fs, sqlx};"),
        ("src/worker/mod.rs", "use axum::{self, Router};"),
        ("src/worker/wait.rs", "type E = ::reqwest::Error;"),
        ("src/history/mod.rs", "fn f() -> axum::Router {}"),
        (
            "src/config.rs",
            "#[derive(clap::Parser)]\n#[doc = \"x\"]\nstruct A;",
        ),
        (
            "src/report/mod.rs",
            "struct A {\n    #[clap(long)]\n    a: u8,\n}",
        ),
        ("src/store/mod.rs", "extern crate redis;"),
    ] {
        let faults = crate_violations(path, text);
        assert!(!faults.is_empty(), "{path}: {text:?} passed");
    }
}

#[test]
fn allowed_imports_pass() {
    for (path, text) in [
        (
            "src/store/mod.rs",
            "use crate::judge::{CallRecord, JudgeError};\nuse super::score::session;",
        ),
        (
            "src/store/judges.rs",
            "use crate::judge::gate::GateSnapshot;\nuse sqlx::Row;",
        ),
        (
            "src/history/mod.rs",
            "use crate::score::session::{Message, Rating};",
        ),
        (
            "src/app.rs",
            "use crate::queue::{memory, redis};\nfn f() { redis::connect(); memory::new() }",
        ),
        (
            "src/queue/mod.rs",
            "pub mod redis;\npub(in crate::queue) fn f() {}",
        ),
        (
            "src/job/mod.rs",
            "// use crate::store::Store;\n/* sqlx::query /* crate::api::x */ */ const A: &str = \"crate::store::Store\";",
        ),
        (
            "src/job/state.rs",
            "const A: &str = r#\"axum::Router \" crate::api::x\"#; const B: char = '\"'; fn f<'a>(x: &'a str) {}",
        ),
        (
            "src/job/state.rs",
            "#[cfg(test)]\n#[expect(clippy::unwrap_used, reason = \"a test\")]\nmod tests {\n    use crate::store::Store;\n    fn f() { sqlx::query(\"}\"); }\n}",
        ),
        ("src/job/state/tests.rs", "use crate::store::Store;"),
    ] {
        assert_eq!(import_violations(path, text), [""; 0], "{path}: {text:?}");
        assert_eq!(crate_violations(path, text), [""; 0], "{path}: {text:?}");
    }
}

#[test]
fn impurity_is_detected() {
    let faults = |text: &str| purity_violations("crates/gavel-rules/src/query/mod.rs", text).len();
    assert_eq!(faults("async fn f() {}"), 1);
    assert_eq!(faults("use std::time::Instant;"), 1);
    assert_eq!(faults("use std::{fs, time::Duration};"), 1);
    assert_eq!(faults("fn f() { chrono::Utc::now(); }"), 1);
    assert_eq!(faults("use std::collections::BTreeMap;"), 0);
}

#[test]
fn dependency_without_comment_is_detected() {
    let manifest = "[dependencies]\n# data\ntokio = \"1\"\nleft-pad = \"1\"\nsubtle = \"2\" # constant time\n\n[dev-dependencies]\nx = \"1\"\n";
    let faults = dependency_violations(manifest);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].starts_with("Cargo.toml:4: "), "{}", faults[0]);
}

fn import_violations(path: &str, text: &str) -> Vec<String> {
    let module = module(path);
    let Some(own) = module.first().copied().filter(|_| !is_test(path)) else {
        return Vec::new();
    };
    let Some((_, allowed)) = IMPORTS.iter().find(|(name, _)| *name == own) else {
        let fault = "has no line in IMPORTS of tests/architecture/table.rs; say what it may import";
        return vec![format!("{path}:1: the module `{own}` {fault}")];
    };
    let mut faults = Vec::new();
    for named in named(path, text, &module) {
        let [root, target, rest @ ..] = named.path.as_slice() else {
            continue;
        };
        let known = IMPORTS.iter().any(|(name, _)| name == target);
        if root != "crate" || !known || target == own {
            continue;
        }
        let shell = SHELL.contains(&target.as_str()) && !PURE.contains(&own);
        if !shell && !allowed.iter().any(|may| permits(may, target, rest)) {
            let what = named.path.join("::");
            let may = may_import(own, allowed);
            faults.push(format!(
                "{path}:{}: `{own}` names {what}; {may}",
                named.line
            ));
        }
    }
    faults
}

fn permits(may: &May, target: &str, rest: &[String]) -> bool {
    match may {
        All(name) => *name == target,
        Only(name, nouns) => {
            *name == target
                && nouns.iter().any(|noun| {
                    noun.split("::")
                        .eq(rest.iter().take(noun.split("::").count()))
                })
        }
    }
}

fn may_import(own: &str, allowed: &[May]) -> String {
    let mut parts: Vec<String> = allowed
        .iter()
        .map(|may| match may {
            All(name) => (*name).to_owned(),
            Only(name, nouns) => format!("of {name} only {}", nouns.join(", ")),
        })
        .collect();
    if !PURE.contains(&own) {
        parts.extend(SHELL.iter().map(|name| (*name).to_owned()));
    }
    if parts.is_empty() {
        return "it may import nothing of ours".to_owned();
    }
    format!("it may import {}", parts.join(", "))
}

fn crate_violations(path: &str, text: &str) -> Vec<String> {
    let place = path.trim_start_matches("src/").trim_end_matches(".rs");
    let mut faults = Vec::new();
    for named in named(path, text, &module(path)) {
        let rule = CRATES
            .iter()
            .find(|(crates, _)| crates.contains(&named.path[0].as_str()));
        let Some((_, places)) = rule else { continue };
        let stands_in = |allowed: &str| {
            let below = place.strip_prefix(allowed);
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if !places.iter().any(|allowed| stands_in(allowed)) {
            faults.push(format!(
                "{path}:{}: names the crate {}, which is for {} only",
                named.line,
                named.path[0],
                places.join(", ")
            ));
        }
    }
    faults
}

fn purity_violations(path: &str, text: &str) -> Vec<String> {
    let pure = PURE_FOLDERS.iter().any(|folder| path.starts_with(folder));
    if !pure || is_test(path) {
        return Vec::new();
    }
    let paths = named(path, text, &module(path)).into_iter();
    let impure = paths.filter(|named| {
        IMPURE_PATHS.iter().any(|bad| {
            bad.split("::")
                .eq(named.path.iter().take(bad.split("::").count()))
        })
    });
    let words = source::tokens(text)
        .into_iter()
        .filter(|token| IMPURE_WORDS.contains(&token.text.as_str()));
    impure
        .map(|named| (named.line, named.path.join("::")))
        .chain(words.map(|token| (token.line, token.text)))
        .map(|(line, what)| format!("{path}:{line}: `{what}` in scoring, which is pure: no IO, no async, no clock, no chance"))
        .collect()
}

fn dependency_violations(manifest: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut listed = false;
    for (at, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            listed = line.trim() == "[dependencies]";
            continue;
        }
        let Some((name, value)) = line.split_once('=').filter(|_| listed) else {
            continue;
        };
        let name = name.trim();
        if !name.starts_with('#') && !value.contains('#') && !WELL_KNOWN.contains(&name) {
            faults.push(format!(
                "Cargo.toml:{}: {name} has no comment that says what it is for",
                at + 1
            ));
        }
    }
    faults
}

fn of_src(faults: fn(&str, &str) -> Vec<String>) -> Vec<String> {
    let files = files("src");
    assert!(!files.is_empty(), "there is no source to read");
    files
        .iter()
        .flat_map(|file| faults(&file.path, &file.text))
        .collect()
}

fn none(faults: Vec<String>) {
    assert!(
        faults.is_empty(),
        "{} broken:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

/// Paths named by a file; empty for test files.
fn named(path: &str, text: &str, module: &[&str]) -> Vec<source::Named> {
    if is_test(path) {
        return Vec::new();
    }
    source::named(text, module)
}

fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// Module of a file below `src/`: `src/queue/redis/mod.rs` is `queue::redis`, `src/lib.rs` the root.
fn module(path: &str) -> Vec<&str> {
    let place = path.trim_start_matches("src/").trim_end_matches(".rs");
    let mut parts: Vec<&str> = place.split('/').collect();
    if matches!(parts.last(), Some(&"mod" | &"lib")) {
        parts.pop();
    }
    parts
}

fn files(below: &str) -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join(below)];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path: PathBuf = entry.expect("a folder of the crate is readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root).expect("it lies below the root");
                let path = name.to_string_lossy().replace('\\', "/");
                let text = read(&path);
                found.push(File { path, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn read(path: &str) -> String {
    let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&whole).unwrap_or_else(|error| panic!("reading {path}: {error}"))
}
