//! What is too much for every value, and what is little enough for most.

use std::collections::BTreeSet;

use crate::model::Error;

use super::graph::{Graph, Node, NodeId, Scan};
use super::groups::groups;
use super::{
    MAX_BACKTRACKS, MAX_COMPILED, MAX_EXPANDED, MAX_IN_PLACE, MAX_IN_PLACE_RULES, MAX_STEPS, MAX_UNEVALUATED, refuse,
};

/// What is known about a graph without a value.
#[derive(Debug)]
pub(super) struct Bounds {
    /// For each subschema, the longest way to another of the same place.
    pub(super) heights: Vec<usize>,
    /// All of the schema with each `$ref` replaced by a copy; none if it is recursive.
    whole: Option<Work>,
}

/// What it costs to apply subschemas, each to one place.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    rules: u64,
    per_byte: u64,
    stepping_back: u64,
    /// Subschemas with `uniqueItems`.
    unique: u64,
}

/// How large a value is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    /// Values in it, itself among them.
    pub(super) values: u64,
    /// Bytes of its strings and names.
    pub(super) bytes: u64,
    /// Levels of arrays and objects.
    pub(super) depth: u64,
}

impl Bounds {
    /// Measures `graph`.
    ///
    /// # Errors
    ///
    /// `invalid_manifest` if it is too much for any value.
    pub(super) fn of(graph: &Graph) -> Result<Self, Error> {
        let heights = heights(graph)?;
        let mut lowest_first: Vec<NodeId> = (0..graph.nodes.len()).collect();
        lowest_first.sort_by_key(|id| heights[*id]);
        in_place_rules(graph, &lowest_first)?;
        looked_through(graph, &lowest_first)?;
        contexts(graph)?;
        let edges: Vec<Vec<NodeId>> = graph.nodes.iter().map(all).collect();
        let groups = groups(&edges);
        expanded(graph, &groups)?;
        let recursive = groups.iter().any(|group| group.len() > 1 || edges[group[0]].contains(&group[0]));
        let whole = (!recursive).then(|| whole(graph, &groups));
        Ok(Self { heights, whole })
    }

    /// Whether a check of a value of this size is sure to stay below [`MAX_STEPS`].
    pub(super) fn allow(&self, size: Size) -> bool {
        let Some(whole) = self.whole else { return false };
        let compared = size.values.saturating_add(comparing(size.values, size.values));
        let steps = [
            whole.rules.saturating_mul(size.values),
            (whole.per_byte / 16 + 1).saturating_mul(size.bytes),
            whole.unique.saturating_mul(compared),
        ];
        let steps = steps.into_iter().fold(0, u64::saturating_add);
        // A text for each value, and together of these bytes, costs no more than each with all.
        let matches = whole.stepping_back.saturating_mul(size.values);
        let runs = if matches == 0 { 1 } else { MAX_RUNS };
        steps.saturating_mul(runs).saturating_add(matches.saturating_mul(stepping_back(size.bytes))) <= MAX_STEPS
    }
}

/// Times that the validator may check a value again, to see whether matches that it could not
/// finish make a difference.
pub(super) const MAX_RUNS: u64 = 64;

/// Steps of matching one pattern that may step back on a text of `bytes`.
///
/// Short texts have few ways to be matched. Each step back may look through the text again.
pub(super) fn stepping_back(bytes: u64) -> u64 {
    let ways = if bytes < 63 { 1 << bytes } else { u64::MAX };
    ways.min(MAX_BACKTRACKS as u64).saturating_mul(5 + bytes) / 25 + 1
}

/// Whether matching a pattern that may step back may not come to an end on a text of `bytes`.
pub(super) fn is_endless(bytes: u64) -> bool {
    bytes >= u64::from(MAX_BACKTRACKS.ilog2())
}

/// Steps of comparing `items` arrays and objects with each other, with `values` in all of them.
///
/// The validator finds equal ones by a hash, but arrays that differ only in their nesting have
/// the same hash, so whoever wants to can have each compared with each.
pub(super) fn comparing(items: u64, values: u64) -> u64 {
    items.saturating_mul(values) / 128
}

/// The longest way from each subschema through others of the same place.
fn heights(graph: &Graph) -> Result<Vec<usize>, Error> {
    const OPEN: usize = usize::MAX;
    let mut heights: Vec<Option<usize>> = vec![None; graph.nodes.len()];
    for start in 0..graph.nodes.len() {
        if heights[start].is_some() {
            continue;
        }
        let mut path = vec![(start, 0)];
        heights[start] = Some(OPEN);
        while let Some((id, next)) = path.pop() {
            let node = &graph.nodes[id];
            let Some(target) = node.in_place.get(next).copied() else {
                let below = node.in_place.iter().filter_map(|target| heights[*target]).max();
                let height = below.map_or(0, |height| height + 1);
                if height > MAX_IN_PLACE {
                    let detail = format!("more than {MAX_IN_PLACE} subschemas lead to each other without going down");
                    return Err(refuse(&node.pointer, detail));
                }
                heights[id] = Some(height);
                continue;
            };
            path.push((id, next + 1));
            match heights[target] {
                Some(OPEN) => {
                    let detail = "the schema refers to itself without going down into a member or item";
                    return Err(refuse(&graph.nodes[target].pointer, detail));
                }
                Some(_) => {}
                None => {
                    heights[target] = Some(OPEN);
                    path.push((target, 0));
                }
            }
        }
    }
    Ok(heights.into_iter().map(Option::unwrap_or_default).collect())
}

/// Refuses what multiplies within one place.
///
/// A subschema that looks for what others left makes the validator check those once more, and
/// those again what they look for: the cost of both is counted here as it is in [`super::cost`].
fn in_place_rules(graph: &Graph, lowest_first: &[NodeId]) -> Result<(), Error> {
    let mut rules = vec![0u64; graph.nodes.len()];
    let mut marks = vec![0u64; graph.nodes.len()];
    for id in lowest_first {
        let node = &graph.nodes[*id];
        let sum = |of: &[u64]| node.in_place.iter().fold(0u64, |sum, target| sum.saturating_add(of[*target]));
        let below = sum(&rules);
        marks[*id] = node.rules.saturating_add(below).saturating_add(sum(&marks));
        rules[*id] = node.rules.saturating_add(below);
        if node.unevaluated {
            rules[*id] = rules[*id].saturating_add(marks[*id]);
        }
        if rules[*id] > MAX_IN_PLACE_RULES {
            let detail = format!("more than {MAX_IN_PLACE_RULES} rules for one place, with each `$ref` followed");
            return Err(refuse(&node.pointer, detail));
        }
    }
    Ok(())
}

/// Refuses too much to look through for what others left, of which the validator keeps copies.
fn looked_through(graph: &Graph, lowest_first: &[NodeId]) -> Result<(), Error> {
    let mut copied = vec![0u64; graph.nodes.len()];
    let mut all = 0u64;
    for id in lowest_first {
        let node = &graph.nodes[*id];
        copied[*id] = node.in_place.iter().fold(node.rules, |sum, target| sum.saturating_add(copied[*target]));
        all = all.saturating_add(if node.unevaluated { copied[*id] } else { 0 });
        if all > MAX_UNEVALUATED {
            let detail = "`unevaluatedProperties` and `unevaluatedItems` have too many subschemas to look through";
            return Err(refuse(&node.pointer, detail));
        }
    }
    Ok(())
}

/// Refuses subschemas with an `$id` of their own that refer to each other in too many ways.
///
/// The validator compiles a subschema anew for each chain of such resources that leads to it,
/// since a dynamic reference in it might lead elsewhere. Among resources that lead to each other
/// there are as many chains as there are ways to order the references between them.
fn contexts(graph: &Graph) -> Result<(), Error> {
    let count = graph.nodes.iter().map(|node| node.resource + 1).max().unwrap_or(0);
    let mut sizes = vec![0u64; count];
    let mut crossings = BTreeSet::new();
    for node in &graph.nodes {
        sizes[node.resource] += 1;
        let targets = all(node).into_iter().filter(|target| graph.nodes[*target].resource != node.resource);
        crossings.extend(targets.map(|target| (node.resource, target)));
    }
    let mut edges = vec![BTreeSet::new(); count];
    for (from, target) in &crossings {
        edges[*from].insert(graph.nodes[*target].resource);
    }
    let edges: Vec<Vec<usize>> = edges.into_iter().map(Vec::from_iter).collect();
    let groups = groups(&edges);
    let mut group_of = vec![0; count];
    for (index, group) in groups.iter().enumerate() {
        group.iter().for_each(|resource| group_of[*resource] = index);
    }
    let mut inner = vec![0u64; groups.len()];
    for (from, target) in &crossings {
        let group = group_of[*from];
        inner[group] += u64::from(group == group_of[graph.nodes[*target].resource]);
    }
    let mut ways = vec![0u64; groups.len()];
    let mut compiled = 0u64;
    // The last group is that of the whole schema, and each stands after all it leads to.
    for (index, group) in groups.iter().enumerate().rev() {
        ways[index] = ways[index].max(1).saturating_mul(orders(inner[index]));
        let size: u64 = group.iter().map(|resource| sizes[*resource]).sum();
        // It finds again what it compiled for one chain by going through those for all.
        let searched = ways[index].saturating_mul(1 + ways[index] / 16);
        compiled = compiled.saturating_add(searched.saturating_mul(size));
        for target in group.iter().flat_map(|resource| &edges[*resource]).filter(|target| group_of[**target] != index) {
            ways[group_of[*target]] = ways[group_of[*target]].saturating_add(ways[index]);
        }
    }
    if compiled > MAX_COMPILED {
        return Err(refuse(
            "",
            "subschemas with an `$id` of their own refer to each other in too many ways; use `$defs`",
        ));
    }
    Ok(())
}

/// In how many ways any of `count` things can stand in a row.
fn orders(count: u64) -> u64 {
    (1..=count).fold(1, |ways: u64, count| ways.saturating_mul(count).saturating_add(1))
}

fn all(node: &Node) -> Vec<NodeId> {
    node.in_place.iter().copied().chain(node.below()).collect()
}

/// Refuses references that multiply, also on the way down.
fn expanded(graph: &Graph, groups: &[Vec<NodeId>]) -> Result<(), Error> {
    let mut expanded = vec![0u64; graph.nodes.len()];
    for group in groups {
        let sizes: Vec<u64> = group
            .iter()
            // What is in the group itself still has size 0: recursion is not unrolled.
            .map(|id| all(&graph.nodes[*id]).iter().fold(1, |sum, target| expanded[*target].max(1).saturating_add(sum)))
            .collect();
        for (id, size) in group.iter().zip(sizes) {
            if size > MAX_EXPANDED {
                let detail = format!("more than {MAX_EXPANDED} subschemas, once each `$ref` is followed");
                return Err(refuse(&graph.nodes[*id].pointer, detail));
            }
            expanded[*id] = size;
        }
    }
    Ok(())
}

/// The work of a schema without recursion, if each of its subschemas applied to one place.
fn whole(graph: &Graph, groups: &[Vec<NodeId>]) -> Work {
    let mut works = vec![Work::default(); graph.nodes.len()];
    let mut marks = vec![Work::default(); graph.nodes.len()];
    for id in groups.iter().flatten() {
        let node = &graph.nodes[*id];
        let plus_all = |start: Work, of: &[Work], ids: &[NodeId]| ids.iter().fold(start, |sum, id| sum.plus(of[*id]));
        let work = plus_all(Work::of(node), &works, &all(node));
        marks[*id] = plus_all(work, &marks, &node.in_place);
        works[*id] = if node.unevaluated { work.plus(marks[*id]) } else { work };
    }
    works.first().copied().unwrap_or_default()
}

impl Work {
    fn of(node: &Node) -> Self {
        let Scan { per_byte, stepping_back } = node.text;
        Self {
            rules: node.rules,
            per_byte: per_byte.saturating_add(node.names.per_byte),
            stepping_back: stepping_back.saturating_add(node.names.stepping_back),
            unique: u64::from(node.unique),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            rules: self.rules.saturating_add(other.rules),
            per_byte: self.per_byte.saturating_add(other.per_byte),
            stepping_back: self.stepping_back.saturating_add(other.stepping_back),
            unique: self.unique.saturating_add(other.unique),
        }
    }
}
