//! Compares texts with golden files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use similar::TextDiff;

/// Longest part of the differences that is printed, in lines.
const MAX_DIFF_LINES: usize = 400;

/// The folder of the golden files.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/snapshots")
}

/// Compares a text with one golden file.
#[track_caller]
pub(crate) fn check(name: &str, text: &str) {
    finish(difference(&root().join(name), text).into_iter().collect());
}

/// Compares texts, by file name, with all the files of a folder of golden files.
#[track_caller]
pub(crate) fn check_folder(name: &str, texts: &BTreeMap<String, String>) {
    check_folder_at(&root().join(name), texts);
}

/// As [`check_folder`], with a folder anywhere.
#[track_caller]
pub(crate) fn check_folder_at(folder: &Path, texts: &BTreeMap<String, String>) {
    let existing: BTreeSet<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let differences = texts
        .iter()
        .map(|(file, text)| difference(&folder.join(file), text));
    let obsolete = existing.iter().filter(|file| !texts.contains_key(*file));
    let obsolete = obsolete.map(|file| remove(&folder.join(file)));
    finish(differences.chain(obsolete).flatten().collect());
}

fn updates() -> bool {
    std::env::var_os("UPDATE_GOLDENS").is_some_and(|value| !value.is_empty())
}

/// Removes a file that nothing is compared with; `None` unless files are only compared.
fn remove(path: &Path) -> Option<String> {
    if updates() {
        fs::remove_file(path).unwrap();
        return None;
    }
    Some(format!("{}: no test makes this file\n", path.display()))
}

/// The differences from a golden file as a unified diff; `None` without any, or if the file was updated.
fn difference(path: &Path, text: &str) -> Option<String> {
    let text = format!("{}\n", text.trim_end());
    if updates() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        return None;
    }
    let golden = fs::read_to_string(path).unwrap_or_default();
    if golden == text {
        return None;
    }
    let name = path.strip_prefix(root()).unwrap_or(path).display();
    let diff = TextDiff::from_lines(&golden, &text);
    let mut unified = diff.unified_diff();
    unified.header(&format!("{name} (golden)"), &format!("{name} (now)"));
    Some(unified.to_string())
}

#[track_caller]
fn finish(differences: Vec<String>) {
    if differences.is_empty() {
        return;
    }
    let all = differences.concat();
    let shown: Vec<&str> = all.lines().take(MAX_DIFF_LINES).collect();
    let more = all.lines().count() - shown.len();
    panic!(
        "{} golden files differ. Where that is wanted: UPDATE_GOLDENS=1, and a line in CHANGELOG.md\n{}\n({more} lines more)",
        differences.len(),
        shown.join("\n")
    );
}
