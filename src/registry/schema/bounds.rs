//! What is too much for every value, and what is little enough for most.

use crate::model::Error;

use super::graph::{Graph, Node, NodeId, Scan};
use super::{
    MAX_BACKTRACKS, MAX_EXPANDED, MAX_IN_PLACE, MAX_IN_PLACE_RULES, MAX_STEPS, MAX_UNEVALUATED, refuse,
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
        let (groups, recursive) = recursion(graph);
        expanded(graph, &groups)?;
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
            whole.stepping_back.saturating_mul(size.values).saturating_mul(stepping_back(size.bytes)),
        ];
        steps.into_iter().fold(0, u64::saturating_add) <= MAX_STEPS
    }
}

/// Steps of matching one pattern that may step back on a text of `bytes`.
///
/// Short texts have few ways to be matched. Each step back may look through the text again.
pub(super) fn stepping_back(bytes: u64) -> u64 {
    let ways = 1u64.checked_shl(u32::try_from(bytes).unwrap_or(u32::MAX)).unwrap_or(u64::MAX);
    (ways.min(MAX_BACKTRACKS as u64) / 3 + 1).saturating_mul(1 + bytes / 128)
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
    let mut unevaluated = 0u64;
    for id in lowest_first {
        let node = &graph.nodes[*id];
        let sum = |of: &[u64]| node.in_place.iter().fold(0u64, |sum, target| sum.saturating_add(of[*target]));
        let below = sum(&rules);
        marks[*id] = node.rules.saturating_add(below).saturating_add(sum(&marks));
        rules[*id] = node.rules.saturating_add(below);
        if node.unevaluated {
            rules[*id] = rules[*id].saturating_add(marks[*id]);
            unevaluated = unevaluated.saturating_add(marks[*id]);
        }
        if rules[*id] > MAX_IN_PLACE_RULES {
            let detail = format!("more than {MAX_IN_PLACE_RULES} rules for one place, with each `$ref` followed");
            return Err(refuse(&node.pointer, detail));
        }
        if unevaluated > MAX_UNEVALUATED {
            let detail = "`unevaluatedProperties` and `unevaluatedItems` have too many subschemas to look through";
            return Err(refuse(&node.pointer, detail));
        }
    }
    Ok(())
}

/// The subschemas in groups that lead to each other, each group after all it leads to, and
/// whether any leads to itself (Tarjan's algorithm).
fn recursion(graph: &Graph) -> (Vec<Vec<NodeId>>, bool) {
    let edges: Vec<Vec<NodeId>> = graph.nodes.iter().map(all).collect();
    let mut order = vec![usize::MAX; edges.len()];
    let mut low = vec![usize::MAX; edges.len()];
    let mut waiting = vec![false; edges.len()];
    let (mut stack, mut path, mut groups) = (Vec::new(), vec![(0, 0)], Vec::new());
    let mut seen = 0;
    while let Some((id, next)) = path.pop() {
        if next == 0 {
            (order[id], low[id]) = (seen, seen);
            seen += 1;
            waiting[id] = true;
            stack.push(id);
        }
        if let Some(target) = edges[id].get(next).copied() {
            path.push((id, next + 1));
            if order[target] == usize::MAX {
                path.push((target, 0));
            } else if waiting[target] {
                low[id] = low[id].min(order[target]);
            }
            continue;
        }
        if let Some((parent, _)) = path.last() {
            low[*parent] = low[*parent].min(low[id]);
        }
        if low[id] == order[id] {
            let from = stack.iter().rposition(|waits| *waits == id).unwrap_or(0);
            let group = stack.split_off(from);
            group.iter().for_each(|member| waiting[*member] = false);
            groups.push(group);
        }
    }
    let recursive = groups.iter().any(|group| group.len() > 1 || edges[group[0]].contains(&group[0]));
    (groups, recursive)
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
