//! How far scores can be trusted: two criteria beside each other, people beside the judge, a judge beside itself, judges
//! beside each other. Pure: the store counts, and this says what the counts come to.

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
