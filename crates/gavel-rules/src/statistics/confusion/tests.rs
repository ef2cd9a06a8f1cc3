//! Compares kappas with scikit-learn 1.9.1 (`cohen_kappa_score`), and intervals with statsmodels 0.15.0 (`cohens_kappa`).

use proptest::prelude::*;

use super::*;

fn table<const K: usize>(rows: [[u64; K]; K]) -> Confusion<K> {
    let mut table = Confusion::default();
    for (i, row) in rows.iter().enumerate() {
        for (j, n) in row.iter().enumerate() {
            table.add(i, j, *n);
        }
    }
    table
}

/// `expected`: value, lower end, upper end.
#[track_caller]
fn assert_kappa<const K: usize>(rows: [[u64; K]; K], weights: Weights, expected: [f64; 3]) {
    let found = table(rows).kappa(weights).unwrap();
    for (found, expected) in [found.value, found.low.unwrap(), found.high.unwrap()]
        .iter()
        .zip(expected)
    {
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }
}

const FIVE: [[u64; 5]; 5] = [
    [11, 4, 1, 0, 0],
    [5, 14, 6, 2, 0],
    [1, 7, 21, 8, 1],
    [0, 2, 9, 25, 6],
    [0, 0, 2, 7, 18],
];
const THREE: [[u64; 3]; 3] = [[20, 5, 2], [4, 17, 8], [1, 6, 37]];
const OPPOSED: [[u64; 3]; 3] = [[0, 9, 1], [8, 0, 2], [3, 4, 0]];
const SPARSE: [[u64; 3]; 3] = [[2, 1, 0], [0, 0, 3], [0, 0, 0]];

#[test]
fn quadratic_kappa_matches_references() {
    let of = |low, value, high| [value, low, high];
    let quadratic = Weights::Quadratic;
    let five = of(
        0.750_417_038_066_019_9,
        0.809_814_713_425_352_3,
        0.869_212_388_784_684_7,
    );
    assert_kappa(FIVE, quadratic, five);
    let three = of(
        0.626_261_715_736_829_8,
        0.741_735_537_190_082_7,
        0.857_209_358_643_336,
    );
    assert_kappa(THREE, quadratic, three);
    let opposed = of(
        -0.576_153_942_945_239_4,
        -0.334_600_760_456_273_74,
        -0.093_047_577_967_308_56,
    );
    assert_kappa(OPPOSED, quadratic, opposed);
    let sparse = of(
        0.352_146_456_957_612_15,
        0.555_555_555_555_555_6,
        0.758_964_654_153_499,
    );
    assert_kappa(SPARSE, quadratic, sparse);
}

#[test]
fn unweighted_kappa_matches_references() {
    let of = |low, value, high| [value, low, high];
    let equal = Weights::Equal;
    let five = of(
        0.377_573_979_006_626_7,
        0.479_462_965_069_973_9,
        0.581_351_951_133_321,
    );
    assert_kappa(FIVE, equal, five);
    let three = of(
        0.464_831_056_653_441_8,
        0.596_586_501_163_692_8,
        0.728_341_945_673_943_6,
    );
    assert_kappa(THREE, equal, three);
    let opposed = of(
        -0.690_747_117_497_011,
        -0.557_692_307_692_307_7,
        -0.424_637_497_887_603_85,
    );
    assert_kappa(OPPOSED, equal, opposed);
}

#[test]
fn raw_agreement_is_share_on_diagonal() {
    let raw = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() < 1e-12;
    assert!(raw(table(FIVE).raw_agreement(), 89.0 / 150.0));
    assert!(raw(table(THREE).raw_agreement(), 0.74));
    assert_eq!(table(OPPOSED).raw_agreement(), Some(0.0));
    assert_eq!(table([[0; 3]; 3]).raw_agreement(), None);
}

#[test]
fn degenerate_tables_have_no_kappa_or_interval() {
    for weights in [Weights::Equal, Weights::Quadratic] {
        assert_eq!(table([[0; 3]; 3]).kappa(weights), None);
        assert_eq!(
            table([[1, 0, 0], [0, 0, 0], [0, 0, 0]]).kappa(weights),
            None
        );
        assert_eq!(
            table([[0, 0, 0], [0, 9, 0], [0, 0, 0]]).kappa(weights),
            None
        );
        let full = table([[3, 0, 0], [0, 4, 0], [0, 0, 5]])
            .kappa(weights)
            .unwrap();
        assert!((full.value - 1.0).abs() < 1e-12);
        assert_eq!((full.low, full.high), (None, None));
    }
}

#[test]
fn skips_categories_out_of_range() {
    let mut counted = table(THREE);
    counted.add(3, 0, 5);
    counted.add(0, 9, 5);
    assert_eq!(counted, table(THREE));
}

proptest! {
    #[test]
    fn kappa_is_bounded_and_symmetric(cells in proptest::array::uniform25(0_u64..30)) {
        let row = |i: usize| -> [u64; 5] { std::array::from_fn(|j| cells[5 * i + j]) };
        let rows: [[u64; 5]; 5] = std::array::from_fn(row);
        let turned: [[u64; 5]; 5] = std::array::from_fn(|i| std::array::from_fn(|j| rows[j][i]));
        for weights in [Weights::Equal, Weights::Quadratic] {
            let (there, back) = (table(rows).kappa(weights), table(turned).kappa(weights));
            prop_assert_eq!(there.is_some(), back.is_some());
            if let (Some(there), Some(back)) = (there, back) {
                prop_assert!((there.value - back.value).abs() < 1e-9);
                prop_assert!((-1.0..=1.0).contains(&there.value));
                if let (Some(low), Some(high)) = (there.low, there.high) {
                    prop_assert!(low <= there.value && there.value <= high);
                }
            }
        }
    }
}
