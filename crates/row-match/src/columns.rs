//! Maps expected columns to generated ones: by name, otherwise by values, each at most once.

use super::HashMap;
use super::assign::assign;
use super::budget::Budget;
use super::projection::Rows;
use super::search::Open;
use super::space::Space;
use super::table::Table;
use super::weights::Weights;

#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) columns: Vec<Option<usize>>,
    /// Whether the search by values was stopped early, so that another choice might match more rows.
    pub(super) cut_short: bool,
}

/// Maps the expected columns.
///
/// A name that occurs once per side is mapped regardless of values. Other expected columns are mapped to generated ones with common values,
/// each used once, so that the most rows match. The name of such a column is unexpected, or occurs more often than expected. First, columns are mapped if each has the same values as exactly
/// one column of the other side. The search for the rest is limited to `steps`.
pub(super) fn map(space: &Space, expected: &Table, generated: &Table, steps: u64) -> Mapping {
    let (mut columns, mut allowed) = by_name(expected, generated);
    let mapping = |columns, cut_short| Mapping { columns, cut_short };
    if allowed.iter().all(Vec::is_empty) {
        return mapping(columns, false);
    }
    if expected.rows() == 0 || generated.rows() == 0 {
        in_turn(&mut columns, &allowed, expected, generated);
        return mapping(columns, false);
    }
    settle_equal(space, expected, generated, &mut columns, &mut allowed);
    let open: Vec<usize> = (0..columns.len())
        .filter(|&column| columns[column].is_none())
        .collect();
    let allowed: Vec<Vec<usize>> = open
        .iter()
        .map(|&column| std::mem::take(&mut allowed[column]))
        .collect();
    if open.is_empty() {
        return mapping(columns, false);
    }
    let weights = Weights::count(space, (expected, &open), (generated, &allowed));
    let mut cut_short = weights.cut_short;
    let mut chosen = assign(&weights, &[]);
    if chosen.iter().all(Option::is_some) {
        let settled: Vec<(usize, usize)> = columns
            .iter()
            .enumerate()
            .filter_map(|(e, g)| Some((e, (*g)?)))
            .collect();
        let mut budget = Budget::new(steps);
        let search = Open::new(space, (expected, &open), generated, &settled, &weights);
        chosen = search.best(&mut budget).unwrap_or(chosen);
        cut_short |= budget.is_exhausted();
    }
    for (column, choice) in open.into_iter().zip(chosen) {
        columns[column] = choice.map(|place| weights.generated[place]);
    }
    mapping(columns, cut_short)
}

fn places(table: &Table) -> HashMap<&str, Vec<usize>> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::default();
    for (place, name) in table.names().enumerate() {
        if let Some(name) = name {
            places.entry(name).or_default().push(place);
        }
    }
    places
}

/// Maps names that occur once per side. For each other expected column, returns the allowed generated ones: those of the same name and, if
/// too few, those with unexpected names.
fn by_name(expected: &Table, generated: &Table) -> (Vec<Option<usize>>, Vec<Vec<usize>>) {
    let (wanted, found) = (places(expected), places(generated));
    let unexpected: Vec<usize> = generated
        .names()
        .enumerate()
        .filter(|(_, name)| {
            name.is_none_or(|name| wanted.get(name).map_or(0, Vec::len) < found[name].len())
        })
        .map(|(place, _)| place)
        .collect();
    let none = Vec::new();
    expected
        .names()
        .map(|name| {
            let rivals = name.map_or(1, |name| wanted[name].len());
            let namesakes = name.and_then(|name| found.get(name)).unwrap_or(&none);
            match (rivals, namesakes.as_slice()) {
                (1, &[only]) => (Some(only), Vec::new()),
                (_, namesakes) if namesakes.len() >= rivals => (None, namesakes.to_vec()),
                // Namesakes are too few, so none is unexpected.
                (_, namesakes) => (None, [namesakes, &unexpected].concat()),
            }
        })
        .unzip()
}

/// Maps columns of the same name in order, because one side has no rows to compare.
fn in_turn(
    columns: &mut [Option<usize>],
    allowed: &[Vec<usize>],
    expected: &Table,
    generated: &Table,
) {
    for (column, allowed) in allowed.iter().enumerate() {
        let name = &expected.columns()[column].name;
        let free = allowed.iter().copied().find(|&place| {
            name.is_some()
                && generated.columns()[place].name == *name
                && !columns.contains(&Some(place))
        });
        if free.is_some() {
            columns[column] = free;
        }
    }
}

/// Maps columns with equal cells, in any order, if each is the only such column on its side and the pair is allowed.
fn settle_equal(
    space: &Space,
    expected: &Table,
    generated: &Table,
    columns: &mut [Option<usize>],
    allowed: &mut [Vec<usize>],
) {
    if expected.rows() != generated.rows() {
        return;
    }
    let mut free: Vec<usize> = allowed.concat();
    free.sort_unstable();
    free.dedup();
    let mut alike: HashMap<Vec<u32>, (Vec<usize>, Vec<usize>)> = HashMap::default();
    for (column, allowed) in allowed.iter().enumerate() {
        if !allowed.is_empty() {
            let mut cells = expected.columns()[column].cells.clone();
            cells.sort_unstable();
            alike.entry(cells).or_default().0.push(column);
        }
    }
    for place in free {
        let cells = generated.columns()[place].cells.iter();
        let mut cells: Vec<u32> = cells.map(|&id| space.of_generated(id)).collect();
        cells.sort_unstable();
        if let Some((_, places)) = alike.get_mut(&cells) {
            places.push(place);
        }
    }
    for pair in alike.into_values() {
        if let ([column], [place]) = (pair.0.as_slice(), pair.1.as_slice())
            && allowed[*column].contains(place)
        {
            columns[*column] = Some(*place);
            allowed[*column].clear();
        }
    }
    let settled: Vec<usize> = columns.iter().flatten().copied().collect();
    for allowed in allowed {
        allowed.retain(|place| !settled.contains(place));
    }
}

/// Returns the rows of both sides with the expected columns only; `None` if an expected column is unmapped.
pub(super) fn side_by_side(
    space: &Space,
    (expected, generated): (&Table, &Table),
    mapping: &Mapping,
) -> Option<(Rows, Rows)> {
    let columns: Option<Vec<usize>> = mapping.columns.iter().copied().collect();
    let columns = columns?;
    // Rows without columns equal only rows without columns.
    if columns.is_empty() && generated.names().len() > 0 {
        return None;
    }
    Some((
        Rows::expected(expected),
        Rows::generated(generated, space, &columns),
    ))
}
