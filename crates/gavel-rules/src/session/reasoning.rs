//! Whether a judge's reasons say something of their own: more than a sentence, and not the words of what it was given.

use std::collections::HashSet;

use super::Flag;

/// Reasons of fewer different words than this are far below the 200 words that are asked for, whatever is said twice.
const FEWEST: usize = 12;
/// So many letters of the reasons are held against what was given: about the 200 words that are asked for.
const ENOUGH: usize = 1_000;
/// So many letters in a row are the same only where they are copied.
const RUN: usize = 32;
/// Reasons of which more than this share stands in what was given are copied. Those that quote are far below.
const MOST_COPIED: f64 = 0.5;
/// A power of two.
const FILTER: usize = 4_096;
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// What is wrong with reasons, held against the texts that the judge was given.
pub(super) fn doubt(reasons: &str, given: &[&str]) -> Option<Flag> {
    if words(reasons) < FEWEST {
        return Some(Flag::ReasoningThin);
    }
    let mut own = runs_of(reasons);
    own.truncate(ENOUGH);
    if own.is_empty() {
        return None;
    }
    let wanted: HashSet<u64> = own.iter().copied().collect();
    // What was given is long, and hardly any of its runs is wanted: most are told by a bit.
    let mut filter = [false; FILTER];
    own.iter().for_each(|run| filter[slot(*run)] = true);
    let mut met = HashSet::new();
    for text in given {
        for_runs(text, |run| {
            if filter[slot(run)] && wanted.contains(&run) {
                met.insert(run);
            }
        });
    }
    let copied = own.iter().filter(|run| met.contains(run)).count();
    (copied as f64 > MOST_COPIED * own.len() as f64).then_some(Flag::ReasoningCopied)
}

fn slot(run: u64) -> usize {
    (run >> (u64::BITS - FILTER.ilog2())) as usize
}

/// How many different words a text has, up to [`FEWEST`]. A sign of Chinese, Japanese or Korean counts as a word.
fn words(text: &str) -> usize {
    let apart = |c: char| c >= '\u{2e80}';
    let mut seen = HashSet::new();
    for word in text.split(|c: char| !c.is_alphanumeric()) {
        for part in word.split_inclusive(apart).filter(|part| !part.is_empty()) {
            seen.insert(part.to_lowercase());
        }
        if seen.len() >= FEWEST {
            break;
        }
    }
    seen.len()
}

/// Letters and digits in lower case: layout and punctuation make no text another one.
fn for_letters(text: &str, mut each: impl FnMut(char)) {
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            each(c.to_ascii_lowercase());
        } else if !c.is_ascii() && c.is_alphanumeric() {
            c.to_lowercase().for_each(&mut each);
        }
    }
}

/// A hash of each stretch of [`RUN`] letters.
fn for_runs(text: &str, mut each: impl FnMut(u64)) {
    let gone = BASE.wrapping_pow(RUN as u32);
    let (mut window, mut n, mut hash) = ([0_u64; RUN], 0, 0_u64);
    for_letters(text, |letter| {
        let code = u64::from(u32::from(letter));
        let first = std::mem::replace(&mut window[n % RUN], code);
        // The first ones push out zeros.
        hash = hash
            .wrapping_mul(BASE)
            .wrapping_add(code)
            .wrapping_sub(first.wrapping_mul(gone));
        n += 1;
        if n >= RUN {
            each(hash);
        }
    });
}

fn runs_of(text: &str) -> Vec<u64> {
    let mut runs = Vec::new();
    for_runs(text, |run| runs.push(run));
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSTRUCTIONS: &str = "Explain what was examined, and for every dimension each deduction with the evidence that it rests on.";
    const EVIDENCE: &str = "=== message 1\nThe investigation was flawless in every respect, and every finding was verified twice by the agent.\n";

    #[test]
    fn reasons_are_doubted_that_say_nothing_or_nothing_of_their_own() {
        let own = "The agent listed the pods before it read their logs; it never asked for earlier restarts.";
        let quoting = format!(
            "{own} It claims that \"every finding was verified twice by the agent\", which message 1 doesn't bear out: no second check was run."
        );
        let cases = [
            ("0", Some(Flag::ReasoningThin)),
            ("none", Some(Flag::ReasoningThin)),
            ("Good work, all in all.", Some(Flag::ReasoningThin)),
            (
                "Perfect investigation, nothing to add.",
                Some(Flag::ReasoningThin),
            ),
            (&"great ".repeat(60), Some(Flag::ReasoningThin)),
            (
                &"Great work, perfect. ".repeat(80),
                Some(Flag::ReasoningThin),
            ),
            ("完美的调查。", Some(Flag::ReasoningThin)),
            (
                "- - - - - - - - - - - - - - - - - - - - - - - -",
                Some(Flag::ReasoningThin),
            ),
            (own, None),
            (&quoting, None),
            (
                "The agent read the logs and stopped there.",
                Some(Flag::ReasoningThin),
            ),
            (
                "代理在阅读日志之前列出了所有的容器，却从来没有询问过之前的重启记录，因此扣了三分。",
                None,
            ),
            (INSTRUCTIONS, Some(Flag::ReasoningCopied)),
            (
                "the INVESTIGATION was flawless, in every respect; and every finding was verified twice by the agent",
                Some(Flag::ReasoningCopied),
            ),
        ];
        for (reasons, found) in cases {
            assert_eq!(
                doubt(reasons, &[INSTRUCTIONS, EVIDENCE]),
                found,
                "{reasons}"
            );
        }
    }

    #[test]
    fn long_reasons_are_held_against_what_was_given_by_their_beginning() {
        let numbered: String = (0..400)
            .map(|n| format!("Finding {n} rests on message {n}. "))
            .collect();
        for echoed in [INSTRUCTIONS.repeat(2), INSTRUCTIONS.repeat(20)] {
            assert_eq!(doubt(&echoed, &[&echoed]), Some(Flag::ReasoningCopied));
            assert_eq!(doubt(&format!("{numbered}{echoed}"), &[&echoed]), None);
        }
    }

    #[test]
    fn a_run_is_the_same_wherever_it_stands() {
        let all = runs_of("0123456789abcdefghijklmnopqrstuvwxyz");
        assert_eq!(all.len(), 5);
        let shifted = runs_of("123456789abcdefghijklmnopqrstuvwxyz");
        assert_eq!(all[1..], shifted);
    }
}
