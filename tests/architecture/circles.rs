//! Cycles of files that name each other. A module and its descendants don't count for each other. A file that uses a
//! re-export depends on the original file. Globs aren't followed.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{self, Links};
use super::{File, module, none};

/// Relative to the package's root.
type Module = Vec<String>;
type Modules<'a> = BTreeMap<Module, (&'a str, Links)>;

/// Maximum number of chained re-exports to follow.
const HOPS: usize = 8;

/// Describes each cycle of more than two files of a package, with its edges.
pub(crate) fn cycle_violations(files: &[File]) -> Vec<String> {
    let modules: Modules = files.iter().map(read).collect();
    let names: BTreeMap<&Module, BTreeSet<&Module>> = modules
        .iter()
        .map(|(own, (_, links))| {
            let targets = links.named.iter().filter_map(|path| target(&modules, path));
            let apart = |other: &&Module| !other.starts_with(own) && !own.starts_with(other);
            (own, targets.filter(apart).collect())
        })
        .collect();
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        names.keys().map(|own| (*own, reach(&names, own))).collect();
    let mut faults = Vec::new();
    for own in names.keys() {
        let others = reached[own].iter().copied();
        let circle: BTreeSet<&Module> = others
            .filter(|other| reached[other].contains(own))
            .collect();
        if circle.len() <= 2 || circle.first() != Some(own) {
            continue;
        }
        let path = |module: &&Module| modules[*module].0;
        let lines = circle.iter().map(|module| {
            let named: Vec<&str> = names[*module].intersection(&circle).map(path).collect();
            format!("\n  {} names {}", path(module), named.join(", "))
        });
        let lines: String = lines.collect();
        faults.push(format!("a circle of {} files:{lines}", circle.len()));
    }
    faults
}

fn read(file: &File) -> (Module, (&str, Links)) {
    let from = file.path.find("src/").unwrap_or(0);
    let module = module(&file.path[from..]);
    let links = source::links(&file.text, &module);
    (
        module.into_iter().map(str::to_owned).collect(),
        (&file.path, links),
    )
}

/// Module that defines the target of a path.
fn target<'a>(modules: &'a Modules, path: &[String]) -> Option<&'a Module> {
    let mut path = path.to_vec();
    for _ in 0..HOPS {
        let mut lengths = (0..=path.len()).rev();
        let length = lengths.find(|length| modules.contains_key(&path[..*length]))?;
        let (module, (_, links)) = modules.get_key_value(&path[..length])?;
        match path.get(length).and_then(|name| links.offered.get(name)) {
            Some(offered) => path = [offered, &path[length + 1..]].concat(),
            None => return Some(module),
        }
    }
    None
}

fn reach<'a>(
    names: &BTreeMap<&'a Module, BTreeSet<&'a Module>>,
    from: &'a Module,
) -> BTreeSet<&'a Module> {
    let (mut reached, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(module) = left.pop() {
        let new = names[module].iter().filter(|other| reached.insert(**other));
        left.extend(new.copied());
    }
    reached
}

#[test]
fn cycle_is_detected() {
    let file = |path: &str, text: &str| File {
        path: format!("crates/x/src/{path}"),
        text: text.to_owned(),
    };
    let faults = |last: &str| {
        cycle_violations(&[
            file("lib.rs", "mod a;\nmod b;\nmod d;\npub use a::A;"),
            file("a.rs", "use crate::b::{self, B};\nuse super::d;"),
            // A parent and its child don't count for each other.
            file(
                "b/mod.rs",
                "mod c;\npub(crate) use c::C as B;\nfn f() { c::g() }",
            ),
            file("b/c.rs", "use super::f;\nuse crate::d::D;"),
            file("d.rs", last),
        ])
    };
    none(faults("// use crate::a::A;"));
    none(faults("use crate::{Other, b::f};"));
    for last in [
        "use crate::A;",
        "fn f() { crate::a::g() }",
        "use super as x;\nfn f(_: x::A) {}",
    ] {
        let faults = faults(last);
        assert_eq!(faults.len(), 1, "{last}: {faults:?}");
        let expected = "a circle of 3 files:
  crates/x/src/a.rs names crates/x/src/b/c.rs, crates/x/src/d.rs
  crates/x/src/b/c.rs names crates/x/src/d.rs
  crates/x/src/d.rs names crates/x/src/a.rs";
        assert_eq!(faults[0], expected, "{last}");
    }
}
