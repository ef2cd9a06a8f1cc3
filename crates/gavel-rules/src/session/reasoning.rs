//! Checks that a judge's reasons are longer than a sentence and not copied from the prompt.

use std::collections::HashSet;

use super::Flag;

/// Minimum number of distinct words. The prompt requests 200 in total.
const FEWEST: usize = 12;
/// Maximum letters of the reasons compared with the prompt: about 200 words.
const ENOUGH: usize = 1_000;
/// Letters in a row that indicate copying: the capacity of a [`Run`].
const RUN: usize = 32;
/// Maximum share of the reasons that may occur in the prompt. Reasons with quotes are far below.
const MOST_COPIED: f64 = 0.5;
const FILTER: usize = 32_768;

/// Returns the weakness of reasons, compared with the texts sent to the judge.
pub(super) fn doubt<'a>(reasons: &str, given: impl IntoIterator<Item = &'a str>) -> Option<Flag> {
    if count_words(reasons) < FEWEST {
        return Some(Flag::ReasoningThin);
    }
    let mut own = runs_of(reasons);
    own.sort_unstable();
    let mut left: Vec<(Run, usize)> = own
        .chunk_by(Run::eq)
        .filter_map(|same| Some((*same.first()?, same.len())))
        .collect();
    // The prompt is long and contains few of the runs, so that a bit filter skips most lookups.
    let mut filter = [false; FILTER];
    own.iter().for_each(|run| filter[run.slot()] = true);
    let mut copied = 0;
    for_runs(given, |run, _| {
        if filter[run.slot()]
            && let Ok(at) = left.binary_search_by_key(&run, |(wanted, _)| *wanted)
            && let Some((_, times)) = left.get_mut(at)
        {
            copied += std::mem::take(times);
        }
    });
    (copied as f64 > MOST_COPIED * own.len() as f64).then_some(Flag::ReasoningCopied)
}

/// Counts distinct words, up to [`FEWEST`]. A Chinese, Japanese or Korean character counts as a word.
fn count_words(text: &str) -> usize {
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

/// Rolling hash of the last [`RUN`] letters. Each letter shifts the earlier ones by two bits, until they drop out. The oldest letters
/// affect few bits, so that runs that differ only there may collide.
///
/// Covers letters and digits in lower case, so that layout and punctuation are ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Run(u64);

impl Run {
    fn with(self, random: u64) -> Self {
        Self((self.0 << (u64::BITS as usize / RUN)).wrapping_add(random))
    }

    fn slot(self) -> usize {
        (self.0 >> (u64::BITS - FILTER.ilog2())) as usize
    }
}

const fn random(letter: u32) -> u64 {
    // Output of SplitMix64 for this state.
    let mut bits = (letter as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Precomputed for ASCII, because evidence may have several MiB; 0 for other characters than letters and digits.
const ASCII: [u64; 128] = {
    let mut table = [0; 128];
    let mut byte = 0_u8;
    while byte < 128 {
        if byte.is_ascii_alphanumeric() {
            table[byte as usize] = random(byte.to_ascii_lowercase() as u32);
        }
        byte += 1;
    }
    table
};

/// Calls `each` with the run ending at each character of a text in parts, and the number of letters so far. Other characters than letters
/// repeat the previous run, which is faster than skipping them.
fn for_runs<'a>(text: impl IntoIterator<Item = &'a str>, mut each: impl FnMut(Run, usize)) {
    let (mut run, mut letters) = (Run::default(), 0);
    for part in text {
        for c in part.chars() {
            match ASCII.get(c as usize) {
                Some(&random) => {
                    let longer = run.with(random);
                    run = if random == 0 { run } else { longer };
                    letters += usize::from(random != 0);
                }
                None if c.is_alphanumeric() => {
                    for letter in c.to_lowercase() {
                        run = run.with(random(letter.into()));
                        letters += 1;
                    }
                }
                None => {}
            }
            each(run, letters);
        }
    }
}

/// Returns the first [`ENOUGH`] full-length runs of a text.
fn runs_of(text: &str) -> Vec<Run> {
    let mut runs = Vec::new();
    for_runs([text], |run, letters| {
        if runs.len() < ENOUGH && letters >= RUN + runs.len() {
            runs.push(run);
        }
    });
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSTRUCTIONS: &str = "Explain what was examined, and for every dimension each deduction with the evidence that it rests on.";
    const EVIDENCE: &str = "=== message 1\nThe investigation was flawless in every respect, and every finding was verified twice by the agent.\n";

    #[test]
    fn flags_thin_and_copied_reasons() {
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
            assert_eq!(doubt(reasons, [INSTRUCTIONS, EVIDENCE]), found, "{reasons}");
        }
    }

    #[test]
    fn compares_only_the_start_of_long_reasons() {
        let numbered: String = (0..400)
            .map(|n| format!("Finding {n} rests on message {n}. "))
            .collect();
        for echoed in [INSTRUCTIONS.repeat(2), INSTRUCTIONS.repeat(20)] {
            assert_eq!(doubt(&echoed, [&*echoed]), Some(Flag::ReasoningCopied));
            assert_eq!(doubt(&format!("{numbered}{echoed}"), [&*echoed]), None);
        }
    }

    #[test]
    fn run_is_independent_of_its_position() {
        let all = runs_of("0123456789abcdefghijklmnopqrstuvwxyz");
        assert_eq!(all.len(), 5);
        let shifted = runs_of("123456789abcdefghijklmnopqrstuvwxyz");
        assert_eq!(all[1..], shifted);
    }
}
