//! Agreement among human reviewers: the upper limit of a judge's expected agreement with them.

use std::collections::BTreeMap;

use super::{Compared, Given, RatedTotal, agreement};

#[derive(Debug, Clone, PartialEq)]
pub struct RatersCompared {
    pub a: String,
    pub b: String,
    pub scales: Vec<Compared>,
}

/// Compares each pair of reviewers on the items that both rated, in descending order of shared items. Only the first review of an item by a
/// person counts.
pub fn raters<K: Ord>(given: impl IntoIterator<Item = (K, String, Given)>) -> Vec<RatersCompared> {
    let mut things: BTreeMap<K, BTreeMap<String, Given>> = BTreeMap::new();
    for (thing, by, given) in given {
        things.entry(thing).or_default().entry(by).or_insert(given);
    }
    let mut pairs: BTreeMap<(&str, &str), Vec<RatedTotal>> = BTreeMap::new();
    for people in things.values() {
        for (at, (a, given_a)) in people.iter().enumerate() {
            for (b, given_b) in people.iter().skip(at + 1) {
                let met = pairs.entry((a.as_str(), b.as_str())).or_default();
                met.push(judged(*given_a, *given_b));
            }
        }
    }
    let compared = |((a, b), judged): ((&str, &str), Vec<RatedTotal>)| RatersCompared {
        a: a.to_owned(),
        b: b.to_owned(),
        scales: agreement(&judged),
    };
    let mut found: Vec<RatersCompared> = pairs.into_iter().map(compared).collect();
    let shared = |pair: &RatersCompared| pair.scales.iter().map(|scale| scale.n).sum::<u64>();
    found.sort_by_key(|pair| std::cmp::Reverse(shared(pair)));
    found
}

/// Returns the two reviews of an item, on the coarser of their scales.
fn judged(a: Given, b: Given) -> RatedTotal {
    let (given, other) = match (a, b) {
        (Given::Total(_) | Given::Rating(_), Given::Quality(_)) => (b, a),
        (_, _) => (a, b),
    };
    RatedTotal {
        given,
        ours: other.middle(),
        n: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gavel_wire::{Quality, Rating, Scale};

    #[test]
    fn middle_of_a_label_has_that_label() {
        for word in Rating::ALL {
            assert_eq!(Rating::from_total(Given::Rating(*word).middle()), *word);
        }
        for word in Quality::ALL {
            assert_eq!(Quality::from_total(Given::Quality(*word).middle()), *word);
        }
    }

    #[test]
    fn reviewers_are_compared_on_shared_items() {
        let good = Given::Rating(Rating::Good);
        let given = [
            (1, "ann", good),
            (1, "bob", Given::Total(80)),
            (2, "ann", Given::Rating(Rating::Failed)),
            (2, "bob", Given::Rating(Rating::Weak)),
            // Newer reviews come first, so this one is ignored.
            (2, "bob", Given::Rating(Rating::Failed)),
            (3, "ann", good),
            (4, "bob", Given::Quality(Quality::Accurate)),
            (4, "ann", good),
            (4, "eve", good),
        ];
        let found = raters(given.map(|(thing, by, given)| (thing, by.to_owned(), given)));
        let pairs: Vec<_> = found
            .iter()
            .map(|pair| {
                let scales = pair.scales.iter();
                let scales: Vec<_> = scales.map(|it| (it.scale, it.n, it.raw)).collect();
                (pair.a.as_str(), pair.b.as_str(), scales)
            })
            .collect();
        let quality = (Scale::Quality, 1, Some(1.0));
        assert_eq!(
            pairs,
            [
                ("ann", "bob", vec![(Scale::Ratings, 2, Some(0.5)), quality]),
                ("ann", "eve", vec![(Scale::Ratings, 1, Some(1.0))]),
                ("bob", "eve", vec![quality]),
            ]
        );
    }
}
