//! Judges spell one tool name in many ways: `kubectl-logs`, `kubectl_logs`, `KubectlLogs`, `kubectl logs`.

/// Returns the key shared by all spellings of a name: its letters and digits in lower case, without separators. `None` for a blank name.
pub fn key_of(name: &str) -> Option<String> {
    let name = name.trim();
    let key: String = name
        .chars()
        .filter(|c| !is_separator(*c))
        .flat_map(char::to_lowercase)
        .collect();
    if key.is_empty() {
        // A name made up of separators is its own key.
        return (!name.is_empty()).then(|| name.to_owned());
    }
    Some(key)
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || matches!(c, '-' | '_' | '.' | '\u{2010}'..='\u{2015}' | '\u{2212}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spellings_of_a_name_share_a_key() {
        let spellings = [
            "kubectl-logs",
            "kubectl_logs",
            "kubectl.logs",
            " Kubectl Logs ",
            "kubectlLogs",
            "KubectlLogs",
            "KUBECTL_LOGS",
            "kubectl\u{2011}logs",
            "kubectl\u{a0}logs",
        ];
        for spelling in spellings {
            assert_eq!(
                key_of(spelling).as_deref(),
                Some("kubectllogs"),
                "{spelling}"
            );
        }
        assert_ne!(key_of("kubectl-log"), key_of("kubectl-logs"));
        assert_ne!(key_of("logs/v1"), key_of("logsv1"));
        assert_eq!(key_of("ÜBER-Blick").as_deref(), Some("überblick"));
    }

    #[test]
    fn separators_only_name_is_its_own_key() {
        assert_eq!(key_of(" -- ").as_deref(), Some("--"));
        assert_eq!(key_of(" \t "), None);
        assert_eq!(key_of(""), None);
    }

    proptest! {
        #[test]
        fn key_ignores_separators(words in prop::collection::vec("[a-z0-9]{1,8}", 1..5)) {
            let keys: Vec<_> = ["-", "_", " ", ".", ""].map(|between| key_of(&words.join(between))).to_vec();
            prop_assert!(keys.iter().all(|key| *key == keys[0]));
            prop_assert_eq!(keys[0].clone().and_then(|key| key_of(&key)), keys[0].clone());
        }
    }
}
