//! Whether a judge's reasons say something of their own: more than a sentence, and not the words of what it was given.

use std::collections::HashSet;

use super::Flag;

/// Reasons of fewer different words than this are far below the 200 words that are asked for, whatever is said twice.
const FEWEST: usize = 12;
/// So many letters of the reasons are held against what was given: about the 200 words that are asked for.
const ENOUGH: usize = 1_000;
/// So many letters in a row are the same only where they are copied: as many as a [`Run`] has room for.
const RUN: usize = 32;
/// Reasons of which more than this share stands in what was given are copied. Those that quote are far below.
const MOST_COPIED: f64 = 0.5;
/// A power of two.
const FILTER: usize = 32_768;

/// What is wrong with reasons, held against the texts that the judge was given.
pub(super) fn doubt<'a>(reasons: &str, given: impl IntoIterator<Item = &'a str>) -> Option<Flag> {
    if words(reasons) < FEWEST {
        return Some(Flag::ReasoningThin);
    }
    let mut own = runs_of(reasons);
    own.sort_unstable();
    let mut left: Vec<(Run, usize)> = own
        .chunk_by(Run::eq)
        .filter_map(|same| Some((*same.first()?, same.len())))
        .collect();
    // What was given is long, and hardly any of its runs is wanted: most are told apart by a bit.
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

/// A hash of the last [`RUN`] letters of a text: each moves those before it on by two bits, until they drop out. The
/// oldest hang on few bits, so that a letter less is sometimes taken for the same.
///
/// Letters and digits count, in lower case: layout and punctuation make no text another one.
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

/// What stands for a letter in a [`Run`].
const fn random(letter: u32) -> u64 {
    // The output of SplitMix64 for this state.
    let mut bits = (letter as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The same for ASCII, and 0 for what is no letter: evidence may be some MiB of it.
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

/// The run that ends with each sign of a text in parts, and how many letters there were so far. A sign that is no letter ends the
/// run before it once more, which is quicker than to tell it apart.
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

/// The first runs of a text that are as long as a run can be.
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
            assert_eq!(doubt(reasons, [INSTRUCTIONS, EVIDENCE]), found, "{reasons}");
        }
    }

    #[test]
    fn long_reasons_are_held_against_what_was_given_by_their_beginning() {
        let numbered: String = (0..400)
            .map(|n| format!("Finding {n} rests on message {n}. "))
            .collect();
        for echoed in [INSTRUCTIONS.repeat(2), INSTRUCTIONS.repeat(20)] {
            assert_eq!(doubt(&echoed, [&*echoed]), Some(Flag::ReasoningCopied));
            assert_eq!(doubt(&format!("{numbered}{echoed}"), [&*echoed]), None);
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
