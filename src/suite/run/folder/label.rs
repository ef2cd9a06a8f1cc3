//! Label of a run's batch: its name, and branch and commit of the evaluated code.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// Maximum characters of a batch name.
const MAX_NAME_CHARS: usize = 200;
/// Characters shown of a commit.
const COMMIT: usize = 12;

/// Variables in which CI systems store the branch; the first set variable is used.
const BRANCH: [&str; 9] = [
    // The source branch of a pull request, because the other two name the merge.
    "GITHUB_HEAD_REF",
    "GITHUB_REF_NAME",
    "CI_COMMIT_REF_NAME",
    "CIRCLE_BRANCH",
    "BUILDKITE_BRANCH",
    "BITBUCKET_BRANCH",
    "BUILD_SOURCEBRANCHNAME",
    "BRANCH_NAME",
    "GIT_BRANCH",
];
const COMMITS: [&str; 7] = [
    "GITHUB_SHA",
    "CI_COMMIT_SHA",
    "CIRCLE_SHA1",
    "BUILDKITE_COMMIT",
    "BITBUCKET_COMMIT",
    "BUILD_SOURCEVERSION",
    "GIT_COMMIT",
];

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Label {
    /// `None`: the suite's file name.
    pub name: Option<String>,
    pub branch: Option<String>,
    pub commit: Option<String>,
}

impl Label {
    /// Returns the label from CI variables; `variable` reads the environment.
    pub fn of_ci(variable: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: &[&str]| {
            let mut values = names.iter().filter_map(|name| variable(name));
            values.find(|value| !value.trim().is_empty())
        };
        Self {
            name: None,
            branch: first(&BRANCH),
            commit: first(&COMMITS),
        }
    }

    pub fn or(self, other: Self) -> Self {
        Self {
            name: self.name.or(other.name),
            branch: self.branch.or(other.branch),
            commit: self.commit.or(other.commit),
        }
    }

    /// Returns the batch's name, such as `questions main@0f3c2a9b1d4e`.
    pub fn title(&self, suite: &Path) -> String {
        let file = suite.file_stem().unwrap_or_default().to_string_lossy();
        let mut title = self.name.clone().unwrap_or_else(|| file.into_owned());
        let commit = self.commit.as_deref().map(|commit| {
            let short: String = commit.chars().take(COMMIT).collect();
            format!("@{short}")
        });
        let code = self.branch.clone().unwrap_or_default() + &commit.unwrap_or_default();
        if !code.is_empty() {
            title = format!("{title} {code}");
        }
        let printable = title.chars().filter(|c| !c.is_control());
        printable.take(MAX_NAME_CHARS).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_name_has_suite_branch_and_commit() {
        let sha = "0f3c2a9b1d4e5f60718293a4b5c6d7e8f9012345";
        for (variables, title) in [
            (&[][..], "nightly"),
            (&[("GITHUB_REF_NAME", "main")], "nightly main"),
            (
                &[
                    ("GITHUB_REF_NAME", "12/merge"),
                    ("GITHUB_HEAD_REF", "fix"),
                    ("GITHUB_SHA", sha),
                ],
                "nightly fix@0f3c2a9b1d4e",
            ),
            // Outside a pull request, GitHub sets the variable to an empty string.
            (
                &[("GITHUB_HEAD_REF", ""), ("GITHUB_REF_NAME", "main")],
                "nightly main",
            ),
            (
                &[("CI_COMMIT_REF_NAME", "dev"), ("CI_COMMIT_SHA", sha)],
                "nightly dev@0f3c2a9b1d4e",
            ),
            (&[("GIT_COMMIT", "abc")], "nightly @abc"),
        ] {
            let of = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let suite = Path::new("suites/nightly.jsonl");
            assert_eq!(Label::of_ci(of).title(suite), title, "{variables:?}");
        }
        let given = Label {
            name: Some("é\n".repeat(300)),
            branch: Some("main".to_owned()),
            commit: None,
        };
        let other = Label {
            branch: Some("other".to_owned()),
            commit: Some("c".to_owned()),
            ..Label::default()
        };
        let both = given.clone().or(other);
        assert_eq!(both.branch, given.branch);
        assert_eq!(both.commit.as_deref(), Some("c"));
        assert_eq!(both.title(Path::new("")), "é".repeat(200));
    }
}
