//! Chooses the columns with the most matching rows among columns with the same values, within a budget.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::HashMap;
use super::assign::assign;
use super::budget::Budget;
use super::space::Space;
use super::table::{CellId, Table};
use super::weights::Weights;

/// Value of a row that can no longer match.
const DEAD: u32 = u32::MAX;

pub(super) struct Open<'a> {
    weights: &'a Weights,
    /// Expected columns, in descending order of distinct values.
    order: Vec<usize>,
    /// Their positions in the table. In a tie, a column keeps its position.
    places: Vec<usize>,
    root: Signature,
}

/// Numbers of the rows: rows with the same number are equal in all columns chosen so far.
#[derive(Clone)]
struct Signature {
    expected: Vec<u32>,
    generated: Vec<u32>,
}

/// A choice for the first columns of `order`.
struct Node {
    parent: usize,
    /// Place chosen for the last of these columns.
    place: usize,
    depth: usize,
    /// Set once the matching rows have been counted.
    signature: Option<Signature>,
}

/// Queue entry, ordered by most rows, then greatest depth, then least column movement, then lowest index.
type Entry = (usize, usize, Reverse<usize>, Reverse<usize>);

impl<'a> Open<'a> {
    /// Creates a search for the columns `open` of the expected table, given the `settled` pairs.
    pub(super) fn new(
        space: &Space,
        (expected, open): (&Table, &[usize]),
        generated: &Table,
        settled: &[(usize, usize)],
        weights: &'a Weights,
    ) -> Self {
        let mut order: Vec<usize> = (0..open.len()).collect();
        order.sort_by_key(|&column| Reverse(weights.distinct[column]));
        let mut root = Signature {
            expected: vec![0; expected.rows()],
            generated: vec![0; generated.rows()],
        };
        for &(one, other) in settled {
            let one = &expected.columns()[one].cells;
            let other = generated.columns()[other].cells.iter();
            let other: Vec<CellId> = other.map(|&id| space.of_generated(id)).collect();
            // Near numbers can be equal without being identical, so such columns can't be part of the signature.
            let exact = |cells: &[CellId]| !cells.iter().any(|&cell| space.is_float(cell));
            if exact(one) && exact(&other) {
                root = root.with(one, &other).0;
            }
        }
        Self {
            weights,
            order,
            places: open.to_vec(),
            root,
        }
    }

    /// Returns the place per expected column that gives the most matching rows; `None` if no row can match.
    ///
    /// Best-first search: the rows that match in the chosen columns are an upper limit for the final number, so the first complete choice
    /// is optimal. If the budget runs out, the deepest choice is completed by weight.
    pub(super) fn best(&self, budget: &mut Budget) -> Option<Vec<Option<usize>>> {
        let mut nodes = vec![Node {
            parent: 0,
            place: 0,
            depth: 0,
            signature: Some(self.root.clone()),
        }];
        let mut heap: BinaryHeap<Entry> = BinaryHeap::new();
        let rows = self.root.expected.len().min(self.root.generated.len());
        heap.push((rows, 0, Reverse(0), Reverse(0)));
        let mut furthest = (0, 0, 0);
        while let Some((bound, depth, moved, Reverse(at))) = heap.pop() {
            if bound == 0 {
                return None;
            }
            if nodes[at].signature.is_none() {
                if !budget.use_steps(self.root.expected.len() + self.root.generated.len()) {
                    break;
                }
                let (signature, matched) = self.look(&nodes, at);
                nodes[at].signature = Some(signature);
                heap.push((matched.min(bound), depth, moved, Reverse(at)));
                continue;
            }
            furthest = furthest.max((depth, bound, at));
            if depth == self.order.len() {
                break;
            }
            if !budget.use_steps(self.weights.generated.len()) {
                break;
            }
            self.branch(&mut nodes, &mut heap, at, bound);
        }
        self.complete(&nodes, furthest.2)
    }

    fn branch(
        &self,
        nodes: &mut Vec<Node>,
        heap: &mut BinaryHeap<Entry>,
        parent: usize,
        bound: usize,
    ) {
        let depth = nodes[parent].depth + 1;
        let column = self.order[depth - 1];
        let taken = self.choices(nodes, parent);
        for (place, &shared) in self.weights.shared[column].iter().enumerate() {
            if shared == 0 || taken.iter().any(|&(_, other)| other == place) {
                continue;
            }
            // Weights of sampled values aren't an upper limit.
            let bound = if self.weights.cut_short {
                bound
            } else {
                bound.min(shared)
            };
            let moved = self.places[column].abs_diff(self.weights.generated[place]);
            heap.push((bound, depth, Reverse(moved), Reverse(nodes.len())));
            nodes.push(Node {
                parent,
                place,
                depth,
                signature: None,
            });
        }
    }

    /// Returns the signature with the node's last column, and the number of matching rows.
    fn look(&self, nodes: &[Node], at: usize) -> (Signature, usize) {
        let node = &nodes[at];
        let column = self.order[node.depth - 1];
        let parent = nodes[node.parent].signature.as_ref();
        parent.unwrap_or(&self.root).with(
            &self.weights.expected_cells[column],
            &self.weights.generated_cells[node.place],
        )
    }

    fn choices(&self, nodes: &[Node], mut at: usize) -> Vec<(usize, usize)> {
        let mut choices = Vec::new();
        while nodes[at].depth > 0 {
            choices.push((self.order[nodes[at].depth - 1], nodes[at].place));
            at = nodes[at].parent;
        }
        choices
    }

    fn complete(&self, nodes: &[Node], at: usize) -> Option<Vec<Option<usize>>> {
        let given = assign(self.weights, &self.choices(nodes, at));
        given.iter().all(Option::is_some).then_some(given)
    }
}

impl Signature {
    /// Extends the signature by one column, and counts the matching rows.
    fn with(&self, expected: &[CellId], generated: &[CellId]) -> (Self, usize) {
        // Number of each pair of old number and cell, and count of unmatched expected rows with it.
        let mut known: HashMap<(u32, CellId), (u32, usize)> =
            HashMap::with_capacity_and_hasher(expected.len(), Default::default());
        let mut next = 0;
        let number = |(&old, &cell): (&u32, &CellId)| {
            let entry = known.entry((old, cell)).or_insert_with(|| {
                next += 1;
                (next - 1, 0)
            });
            entry.1 += 1;
            entry.0
        };
        let numbers: Vec<u32> = self.expected.iter().zip(expected).map(number).collect();
        let mut matched = 0;
        let other = |(&old, &cell): (&u32, &CellId)| {
            let Some((number, free)) = known.get_mut(&(old, cell)) else {
                return DEAD;
            };
            if *free > 0 {
                *free -= 1;
                matched += 1;
            }
            *number
        };
        let others = self.generated.iter().zip(generated).map(other).collect();
        (
            Self {
                expected: numbers,
                generated: others,
            },
            matched,
        )
    }
}
