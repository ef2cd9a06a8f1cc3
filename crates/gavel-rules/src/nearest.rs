//! Suggestions for misspelled names ("Did you mean").

use strsim::normalized_damerau_levenshtein as likeness;

/// Maximum length for a suggestion. Comparing longer names is too slow and needs too much memory.
pub(crate) const LONGEST: usize = 64;
const LEAST: f64 = 0.65;

/// Returns the shortest known name with all words of `given` (`test_id` for `id`) if it is unique. Otherwise returns the most similar one.
pub fn nearest<'k>(given: &str, known: impl Iterator<Item = &'k str> + Clone) -> Option<&'k str> {
    if given.len() > LONGEST {
        return None;
    }
    let has_its_words = |name: &&str| parts(given).all(|word| parts(name).any(|own| own == word));
    let mut with_its_words: Vec<&str> = known.clone().filter(has_its_words).collect();
    with_its_words.sort_by_key(|name| parts(name).count());
    match with_its_words[..] {
        [one] => return Some(one),
        [one, next, ..] if parts(one).count() < parts(next).count() => return Some(one),
        _ => {}
    }
    known
        .filter(|name| shares_letters(given, name))
        .map(|name| (likeness(given, name), name))
        .filter(|(alike, _)| *alike >= LEAST)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

pub fn hint<'k>(given: &str, known: impl Iterator<Item = &'k str> + Clone) -> String {
    match nearest(given, known.clone()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("known: {}", known.collect::<Vec<_>>().join(", ")),
    }
}

/// Whether two names share enough letters to be similar: one edit fixes at most one letter. Much cheaper than the comparison, and rejects
/// most names.
fn shares_letters(one: &str, other: &str) -> bool {
    let mut left: Vec<char> = one.chars().collect();
    let longest = left.len().max(other.chars().count());
    let shared = other.chars().filter(|letter| {
        let at = left.iter().position(|other| other == letter);
        at.map(|at| left.swap_remove(at)).is_some()
    });
    shared.count() as f64 >= LEAST * longest as f64
}

fn parts(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_name_gets_suggestion() {
        let settings = [
            "worker.concurrency",
            "worker.lease_s",
            "bind",
            "retention.jobs_days",
            "retention.judge_calls_days",
        ];
        let judge = [
            "base_url",
            "custom_base_url",
            "max_output_tokens",
            "timeout_s",
        ];
        let suite = ["expected_kql", "expected_columns", "expected_results"];
        let session = ["agent", "alert_data", "alert_type", "external_id"];
        for (given, known, meant) in [
            (
                "worker.concurency",
                &settings[..],
                Some("worker.concurrency"),
            ),
            ("concurrency", &settings, Some("worker.concurrency")),
            ("worker", &settings, Some("worker.concurrency")),
            (
                "retention.calls_days",
                &settings,
                Some("retention.judge_calls_days"),
            ),
            ("favourite_colour", &settings, None),
            ("url", &judge, Some("base_url")),
            ("max_tokens", &judge, Some("max_output_tokens")),
            ("timeout", &judge, Some("timeout_s")),
            ("max_retries", &judge, None),
            ("agnet", &session, Some("agent")),
            ("id", &session, Some("external_id")),
            ("alert", &session, None),
            ("expected", &suite, Some("expected_kql")),
        ] {
            assert_eq!(nearest(given, known.iter().copied()), meant, "{given}");
        }
        assert_eq!(
            hint("alert", ["agent", "alert_data", "alert_type"].into_iter()),
            "known: agent, alert_data, alert_type"
        );
    }

    #[test]
    fn skips_names_with_few_shared_letters() {
        let fields = crate::query::FIELDS.iter().map(|field| field.name);
        let compared = |given: &str| {
            fields
                .clone()
                .filter(|name| shares_letters(given, name))
                .count()
        };
        let notes: usize = (0..1000)
            .map(|n| compared(&format!("note number {n}")))
            .sum();
        assert_eq!(notes, 0);
        assert!(compared("expected_rows") > 0);
    }

    #[test]
    fn very_long_name_gets_no_suggestion() {
        // A known name of the same length would be the closest, but comparing the two needs a table of 49 million cells.
        let page = "columns".repeat(1_000);
        assert_eq!(nearest(&page, [page.as_str()].into_iter()), None);
    }
}
