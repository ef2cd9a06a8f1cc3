//! Measures of trust in scores: two criteria compared, reviewers with the judge, repeated scores of one judge, several
//! judges. No I/O: the store counts, this module computes.

mod agreement;
mod comparison;
mod human;
mod panel;
mod raters;

pub use agreement::{Compared, RatedTotal, agreement};
pub use comparison::{PairCount, VersionComparison, compare};
pub use human::Given;
pub use panel::{DISAGREEMENT, JudgeFigures, Panel, PanelFigures, Panels, Vote};
pub use raters::{RatersCompared, raters};
