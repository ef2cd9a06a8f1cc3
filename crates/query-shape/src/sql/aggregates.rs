//! Aggregate functions and grouping keys of a query. Window functions aren't aggregates.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArguments, GroupByExpr, Ident, Select, SelectItem,
    Value, visit_expressions, visit_expressions_mut,
};

use super::predicate;

const AGGREGATES: &str = "any_value approx_count_distinct approx_distinct approx_percentile approx_quantiles approx_top_count \
    approx_top_k approx_top_sum arg_max arg_min argmax argmin array_agg array_concat_agg arrayagg avg avgif \
    bit_and bit_or bit_xor bool_and bool_or booland_agg boolor_agg checksum_agg collect_list collect_set corr \
    count count_big count_distinct count_if countif covar_pop covar_samp every group_concat grouparray \
    groupuniqarray hash_agg json_agg json_arrayagg json_group_array json_group_object json_object_agg \
    json_objectagg jsonb_agg jsonb_object_agg kurtosis list listagg logical_and logical_or max max_by maxif median \
    min min_by minif mode object_agg percentile percentile_approx percentile_cont percentile_disc quantile \
    quantile_cont quantile_disc quantiles range_agg regr_avgx regr_avgy regr_count regr_intercept regr_r2 \
    regr_slope regr_sxx regr_sxy regr_syy skewness st_union_agg std stddev stddev_pop stddev_samp stdev stdevp \
    string_agg sum sumif topk total uniq uniqexact var var_pop var_samp variance variance_pop variance_samp varp \
    xmlagg";

#[derive(Debug, Default)]
pub(super) struct Aggregates {
    found: Vec<String>,
    /// Aggregate calls of the last select, per open query, because HAVING and ORDER BY repeat them.
    met: Vec<HashSet<String>>,
}

impl Aggregates {
    pub(super) fn into_found(self) -> Vec<String> {
        self.found
    }

    pub(super) fn enter_query(&mut self) {
        self.met.push(HashSet::new());
    }

    pub(super) fn leave_query(&mut self) {
        self.met.pop();
    }

    pub(super) fn enter_select(&mut self, select: &Select) {
        if let Some(met) = self.met.last_mut() {
            met.clear();
        }
        let keys: Vec<&Expr> = match &select.group_by {
            GroupByExpr::All(_) => projected(select).filter(|expr| !aggregates(expr)).collect(),
            GroupByExpr::Expressions(keys, _) => flat(keys),
        };
        if keys.is_empty() {
            return;
        }
        let mut tags = HashSet::new();
        for key in resolved(select, keys) {
            let tag = tag(key);
            if tags.insert(tag.clone()) {
                self.found.push(tag);
            }
        }
    }

    pub(super) fn add_key(&mut self, key: &Expr) {
        self.found.push(tag(key));
    }

    /// Records the call of an aggregate function, once per select.
    pub(super) fn read(&mut self, expr: &Expr) {
        let Some((function, name)) = aggregate(expr) else {
            return;
        };
        let is_new = match self.met.last_mut() {
            Some(met) => met.insert(function.to_string().to_lowercase()),
            None => true,
        };
        if is_new {
            self.found.push(if is_distinct(function) {
                format!("{name} distinct")
            } else {
                name
            });
        }
    }
}

fn aggregate(expr: &Expr) -> Option<(&Function, String)> {
    let Expr::Function(function) = expr else {
        return None;
    };
    if function.over.is_some() {
        return None;
    }
    let name = predicate::called(function);
    is_aggregate(&name).then_some((function, name))
}

/// `name` must be in lower case.
pub(super) fn is_aggregate(name: &str) -> bool {
    AGGREGATES.split(' ').any(|aggregate| aggregate == name)
}

/// Whether an expression calls an aggregate function anywhere.
fn aggregates(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |inner| match aggregate(inner) {
        Some(_) => ControlFlow::Break(()),
        None => ControlFlow::Continue(()),
    });
    found.is_break()
}

fn is_distinct(function: &Function) -> bool {
    matches!(
        &function.args,
        FunctionArguments::List(list) if list.duplicate_treatment == Some(DuplicateTreatment::Distinct)
    )
}

/// Keys of a GROUP BY, including ROLLUP, CUBE and GROUPING SETS.
fn flat(keys: &[Expr]) -> Vec<&Expr> {
    let mut flat = Vec::new();
    let mut rest: Vec<&Expr> = keys.iter().rev().collect();
    while let Some(key) = rest.pop() {
        if let Expr::Nested(inner) = key {
            rest.push(inner);
        } else if let Expr::Tuple(keys) = key {
            rest.extend(keys.iter().rev());
        } else if let Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) = key {
            rest.extend(sets.iter().rev().flat_map(|set| set.iter().rev()));
        } else {
            flat.push(key);
        }
    }
    flat
}

fn projected(select: &Select) -> impl Iterator<Item = &Expr> {
    select.projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr)
        | SelectItem::ExprWithAlias { expr, .. }
        | SelectItem::ExprWithAliases { expr, .. } => Some(expr),
        SelectItem::QualifiedWildcard(..) | SelectItem::Wildcard(_) => None,
    })
}

/// Resolves positions (`group by 1`) and aliases. Returns each key once.
fn resolved<'a>(select: &'a Select, keys: Vec<&'a Expr>) -> Vec<&'a Expr> {
    let has_wildcard = projected(select).count() != select.projection.len();
    let mut by_alias = HashMap::new();
    for item in &select.projection {
        if let SelectItem::ExprWithAlias { expr, alias } = item {
            by_alias.entry(alias.value.to_lowercase()).or_insert(expr);
        }
    }
    let mut used = HashSet::new();
    let mut resolved = Vec::new();
    for key in keys {
        let meant = if let Expr::Value(value) = key
            && !has_wildcard
        {
            position(&value.value).and_then(|at| projected(select).nth(at))
        } else if let Expr::Identifier(ident) = key {
            by_alias.get(&ident.value.to_lowercase()).copied()
        } else {
            None
        };
        // Repeated keys don't change the groups, and formatting each of them is expensive.
        let meant = meant.unwrap_or(key);
        if used.insert(std::ptr::from_ref(meant) as usize) {
            resolved.push(meant);
        }
    }
    resolved
}

/// Converts a position counted from 1 to an index.
fn position(value: &Value) -> Option<usize> {
    if let Value::Number(digits, _) = value {
        return digits.parse::<usize>().ok()?.checked_sub(1);
    }
    None
}

/// Normalizes a key: no qualifiers or quotes, lower case.
fn tag(key: &Expr) -> String {
    let text = match predicate::column(key) {
        Some(column) => column.to_lowercase(),
        None => {
            let mut bare = key.clone();
            // The closure never breaks.
            let _: ControlFlow<()> = visit_expressions_mut(&mut bare, |expr| {
                if let Some(column) = predicate::column(expr) {
                    *expr = Expr::Identifier(Ident::new(column));
                }
                ControlFlow::Continue(())
            });
            bare.to_string().to_lowercase()
        }
    };
    format!("by:{text}")
}
