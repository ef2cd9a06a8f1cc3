//! The number in a text: alone, or within prose that leaves it as it is.

use std::collections::HashSet;

use row_match::number_in_text;

const CURRENCIES: &str = "$€£¥₹₽₩₺₿₫₪₴₦₱฿";
/// What may stand before a currency's sign: `US$`. Not `M` and `T`, which are millions and thousands.
const COUNTRIES: [&str; 9] = ["", "US", "CA", "AU", "NZ", "HK", "A", "C", "R"];
/// Marks that don't change a number next to them.
const MARKS: &str = ":;%°='\"’‘“”()*`—";
/// Marks that don't change a number unless they are next to it.
const OTHER_MARKS: &str = "!-/&_#";
/// Words that don't change a number, whatever the question is. Units aren't among them, because 42 hours aren't 42 days.
const PLAIN_WORDS: &str = "a according all altogether amount an and answer are at average based be been by client company contain correct \
    cost count current currently customer data database dataset different distinct dollar employee entry equal error eur euro exactly \
    exist figure final find for found from gbp get give given got had has have here i in income invoice is it item just made match \
    matching mean number of on only order our output overall payment people percent percentage person placed precisely price product \
    profit quantity query rate record response result return revenue row s sale show so sold sum system table that the their there \
    therefore these they this those to today total transaction unique usd user value was we were which who with yes you your";

/// What bringing an answer into its form cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    None,
    Some,
}

/// The number of a text that answers a question.
pub(super) fn number_of(text: &str, question: &str) -> Option<(f64, Loss)> {
    let whole = match text.parse::<f64>() {
        // As `parse_json` reads the numbers that JSON doesn't support.
        Ok(number) if !number.is_finite() => Some(number),
        Ok(_) | Err(_) => plain_number(text),
    };
    whole
        .map(|number| (number, Loss::None))
        .or_else(|| number_within(text, question).map(|number| (number, Loss::Some)))
}

/// Parses a number, which may have its thousands set apart: `1,234,567.8`.
fn plain_number(text: &str) -> Option<f64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut groups = whole.trim_start_matches(['-', '+']).split(',');
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let first = groups.next()?;
    let is_grouped = (1..=3).contains(&first.len())
        && is_digits(first)
        && is_digits(fraction)
        && groups.all(|group| group.len() == 3 && is_digits(group));
    match text.contains(',') {
        true => is_grouped.then(|| number_in_text(&text.replace(',', "")))?,
        false => number_in_text(text),
    }
}

/// Returns the only number in a text that the question doesn't have, if each other word is in the question or in [`PLAIN_WORDS`]. In
/// parentheses it is negative, as in accounting.
fn number_within(text: &str, question: &str) -> Option<f64> {
    let inside = text
        .strip_prefix('(')
        .and_then(|text| text.strip_suffix(')'));
    if let Some(inside) = inside.filter(|inside| !inside.contains(['-', '+'])) {
        let is_around = |c: char| c.is_whitespace() || c == '%' || is_currency(c);
        return amount(inside.trim_matches(is_around)).map(|number| -number);
    }
    let ((words, mut gaps), (asked, _)) = (words_of(text), words_of(question));
    let plain: HashSet<String> = PLAIN_WORDS.split(' ').map(stem).collect();
    let known: HashSet<String> = asked.iter().map(|word| stem(word)).collect();
    let is_plain = |word: &str| is_currency_name(word) || plain.contains(&stem(word));
    let is_new = |word: &str| !is_plain(word) && !known.contains(&stem(word));
    let mut found: Vec<usize> = (0..words.len()).filter(|at| is_new(words[*at])).collect();
    if found.is_empty() {
        found = (0..words.len())
            .filter(|at| amount(words[*at]).is_some())
            .collect();
    }
    let &[at] = found.as_slice() else {
        return None;
    };
    let is_negative = gaps[at].ends_with(['-', '−']);
    gaps[at] = gaps[at].strip_suffix(['-', '−', '+']).unwrap_or(gaps[at]);
    let are_marks = gaps.iter().enumerate().all(|(place, gap)| {
        let is_beside = place == at || place == at + 1;
        let is_mark = |c| MARKS.contains(c) || !is_beside && OTHER_MARKS.contains(c);
        gap.chars().all(|c| c.is_whitespace() || is_mark(c))
    });
    // `T-12`, and `more than 42` where the question has `more than 5`.
    let is_changing = |word: &str| {
        let is_limit = |pair: &[&str]| amount(pair[1]).is_some() && stem(pair[0]) == stem(word);
        let is_attached = gaps[at].is_empty() && !is_currency_name(word);
        is_attached || !is_plain(word) && asked.windows(2).any(is_limit)
    };
    let is_changed = gaps[at].ends_with('(') || at > 0 && is_changing(words[at - 1]);
    let number = amount(words[at]).filter(|_| are_marks && !is_changed)?;
    Some(if is_negative { -number } else { number })
}

/// Splits a text into words and numbers, and what stands before, between and after them.
fn words_of(text: &str) -> (Vec<&str>, Vec<&str>) {
    let is_part = |c: char| c.is_alphanumeric() || ".,".contains(c) || is_currency(c);
    let (mut words, mut gaps, mut rest) = (Vec::new(), Vec::new(), text);
    while let Some(start) = rest.find(is_part) {
        let (gap, tail) = rest.split_at(start);
        let (word, after) = tail.split_at(tail.find(|c| !is_part(c)).unwrap_or(tail.len()));
        words.push(word.strip_suffix(['.', ',']).unwrap_or(word));
        gaps.push(gap);
        rest = after;
    }
    gaps.push(rest);
    (words, gaps)
}

/// Returns a word in lower case without its ending, because a question has `order` and `place` where its answer has `orders` and `placed`.
fn stem(word: &str) -> String {
    let word = word.to_lowercase();
    let singular = word.strip_suffix('s').filter(|stem| stem.len() > 2);
    let mut stem = singular.unwrap_or(&word);
    while stem.len() > 4
        && let Some(shorter) = stem.strip_suffix(['d', 'e', 'i', 'y'])
    {
        stem = shorter;
    }
    stem.to_owned()
}

fn is_currency(c: char) -> bool {
    CURRENCIES.contains(c)
}

/// Whether a word is a currency's sign, such as `$` and `US$`.
fn is_currency_name(word: &str) -> bool {
    let country = word.trim_end_matches(is_currency);
    country != word && COUNTRIES.contains(&country)
}

/// Returns the number of a word: `42`, `$42`, `US$42` or `42€`.
fn amount(word: &str) -> Option<f64> {
    let word = word.trim_end_matches(is_currency);
    let digits = word.rsplit(is_currency).next()?;
    let currency = word.strip_suffix(digits)?;
    (currency.is_empty() || is_currency_name(currency)).then(|| plain_number(digits))?
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERS: &str = "How many orders are open?";

    fn found(question: &str, text: &str) -> Option<f64> {
        number_of(text, question).map(|found| found.0)
    }

    #[test]
    fn number_counts_beside_words_of_the_question_and_plain_words() {
        for text in [
            "There are 42 rows",
            "The answer is 42.",
            "Total revenue: $42 (USD)",
            "**42**",
            "We have 42 open orders.",
            "I found 42 open orders in the database.",
            "The query returned 42.",
            "You currently have exactly 42 open orders!",
            "It's 42",
            "total_orders = 42",
            "Answer:\n\n42",
            "US$ 42",
            "## Result\n- **Open** orders: 42",
            "42 euros",
        ] {
            assert_eq!(found(ORDERS, text), Some(42.0), "{text}");
        }
        for (question, text) in [
            (
                "How many customers placed orders in 2024?",
                "42 customers placed orders in 2024",
            ),
            ("How many orders did Ada place?", "Ada placed 42 orders."),
            ("How many users did not log in?", "42 users did not log in."),
            (
                "What was the revenue in Q3, in thousands?",
                "The revenue in Q3 was 42 thousand.",
            ),
            (
                "How many of the 100 docks are free?",
                "42 of the 100 docks are free",
            ),
            ("How many days did it take?", "42 days"),
            ("How many m² is that?", "42 m²"),
            (
                "What is the maximum year-over-year growth?",
                "The maximum year-over-year growth is 42 %",
            ),
            (
                "Wie viele Bestellungen gibt es?",
                "Es gibt 42 Bestellungen.",
            ),
            ("Сколько заказов?", "42 заказов"),
            (
                "What is the square root of 1764?",
                "The square root of 1764 is 42.",
            ),
        ] {
            assert_eq!(found(question, text), Some(42.0), "{text}");
        }
    }

    #[test]
    fn number_does_not_count_beside_other_words_and_signs() {
        for text in [
            "42 squared",
            "42 cubed",
            "square root of 42",
            "42 hundredths",
            "42 tenths",
            "42 factorial",
            "42 pairs",
            "42nd",
            "the 42nd",
            "42ish",
            "42-ish",
            "42 max",
            "anything but 42",
            "all but 42",
            "a deficit of 42",
            "a shortfall of 42",
            "a loss of 42",
            "a decrease of 42",
            "42 dollars short",
            "unsure: 42",
            "42?",
            "42!",
            "orders != 42",
            "42!",
            "!= 42",
            "maybe 42",
            "log of 42",
            "42-fold",
            "42 percent less",
            "42 in base 7",
            "42 cents",
            "42¢",
            "42 hours",
            "3 M€",
            "42...",
            "42 customers placed orders in 2024",
            "10 of 42",
            "höchstens 42",
            "- 42",
            "42 orders?",
            "if 42",
            "42 orders are late",
            "42 of them are wrong",
            "It's false that there are 42",
            "orders (42)",
            "42 or so",
            "as many as 42 orders",
        ] {
            assert_eq!(found(ORDERS, text), None, "{text}");
        }
        let limits = "How many customers have more than 3 orders over $500?";
        for (text, number) in [
            (
                "42 customers have more than 3 orders over $500.",
                Some(42.0),
            ),
            ("More than 42", None),
            ("over 42 customers", None),
        ] {
            assert_eq!(found(limits, text), number, "{text}");
        }
        assert_eq!(found("Which of 10 and 42?", "10 and 42"), None);
    }

    #[test]
    fn plain_words_change_no_number() {
        let plain: Vec<String> = PLAIN_WORDS.split(' ').map(stem).collect();
        for word in "not no never none nothing without except than or plus minus negative less fewer least most up down about above almost \
            around below beyond over under within half twice double dozen hundred thousand million one two ten per hour minute day".split(' ') {
            assert!(!plain.contains(&stem(word)), "{word}");
        }
    }

    #[test]
    fn docs_list_the_plain_words() {
        let docs = include_str!("../../../../docs/qas.md");
        let docs: Vec<&str> = docs.split_whitespace().collect();
        assert!(docs.join(" ").contains(PLAIN_WORDS));
    }
}
