//! How many steps the check of one value can take, counted before it is checked.
//!
//! The value and the graph are walked together. Each place of the value has a list of the
//! subschemas that apply there, with how many times: once for each way that leads to them. The
//! validator may stop earlier, so the count is a bound, but one that knows the value: recursion
//! that branches is refused for the values on which it does, and for no other.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::Value;

use super::bounds::{Bounds, Size, comparing, stepping_back};
use super::graph::{Graph, Node, NodeId, Scan};
use super::places::values_in;
use super::{MAX_DEPTH, MAX_STEPS};

/// Bytes that one failure takes besides its path.
const FAILURE_BYTES: u64 = 160;

/// What the check of a value costs at most.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// Steps.
    pub(super) steps: u64,
    /// Memory of all failures, if everything fails.
    pub(super) failure_bytes: u64,
}

/// How large `value` is; none if it is deeper than [`MAX_DEPTH`].
pub(super) fn size(value: &Value) -> Option<Size> {
    fn add(value: &Value, depth: u64, size: &mut Size) -> Option<()> {
        size.values += 1;
        match value {
            Value::String(text) => size.bytes += text.len() as u64,
            Value::Array(_) | Value::Object(_) if depth >= MAX_DEPTH as u64 => return None,
            Value::Array(items) => items.iter().try_for_each(|item| add(item, depth + 1, size))?,
            Value::Object(members) => members.iter().try_for_each(|(name, member)| {
                size.bytes += name.len() as u64;
                add(member, depth + 1, size)
            })?,
            _ => {}
        }
        size.depth = size.depth.max(depth);
        Some(())
    }
    let mut size = Size::default();
    add(value, 0, &mut size)?;
    Some(size)
}

/// Counts the steps of checking `value`, which is not deeper than [`MAX_DEPTH`]; none if they are
/// more than [`MAX_STEPS`].
pub(super) fn count(graph: &Graph, bounds: &Bounds, value: &Value) -> Option<Cost> {
    let mut meter = Meter { graph, bounds, cost: Cost::default() };
    meter.value(value, &Applied::from([(0, 1)]), 0)?;
    Some(meter.cost)
}

/// Subschemas that apply to one place, with how many times each.
type Applied = BTreeMap<NodeId, u64>;

struct Meter<'g> {
    graph: &'g Graph,
    bounds: &'g Bounds,
    cost: Cost,
}

impl<'g> Meter<'g> {
    fn spend(&mut self, steps: u64) -> Option<()> {
        self.cost.steps = self.cost.steps.saturating_add(steps);
        (self.cost.steps <= MAX_STEPS).then_some(())
    }

    fn value(&mut self, value: &Value, applied: &Applied, path_bytes: u64) -> Option<()> {
        if applied.is_empty() {
            return Some(());
        }
        let applied = self.in_place(applied, path_bytes)?;
        match value {
            Value::String(text) => self.text(text, &applied),
            Value::Array(items) => self.items(items, &applied, path_bytes),
            Value::Object(members) => self.members(members, &applied, path_bytes),
            _ => Some(()),
        }
    }

    /// All subschemas of a place, from those that are applied from above. Spends their rules.
    fn in_place(&mut self, applied: &Applied, path_bytes: u64) -> Option<Vec<(&'g Node, u64)>> {
        let height = |id: &NodeId| Reverse(self.bounds.heights[*id]);
        // How many times each is checked, and looked through for what it left.
        let mut open: BTreeMap<(Reverse<usize>, NodeId), (u64, u64)> =
            applied.iter().map(|(id, times)| ((height(id), *id), (*times, 0))).collect();
        let mut all = Vec::with_capacity(open.len());
        while let Some(((_, id), (checked, mut looked))) = open.pop_first() {
            let node = &self.graph.nodes[id];
            if node.unevaluated {
                looked = looked.saturating_add(checked);
            }
            let times = checked.saturating_add(looked);
            let rules = times.saturating_mul(node.rules);
            self.cost.steps = self.cost.steps.saturating_add(rules);
            let failure_bytes = rules.saturating_mul(FAILURE_BYTES + path_bytes);
            self.cost.failure_bytes = self.cost.failure_bytes.saturating_add(failure_bytes);
            for target in &node.in_place {
                let (more_checked, more_looked) = open.entry((Reverse(self.bounds.heights[*target]), *target)).or_default();
                *more_checked = more_checked.saturating_add(times);
                *more_looked = more_looked.saturating_add(looked);
            }
            all.push((node, times));
        }
        self.spend(0)?;
        Some(all)
    }

    fn text(&mut self, text: &str, applied: &[(&Node, u64)]) -> Option<()> {
        applied.iter().try_for_each(|(node, times)| self.scan(text, node.text, *times))
    }

    fn scan(&mut self, text: &str, scan: Scan, times: u64) -> Option<()> {
        let bytes = text.len() as u64;
        let read = scan.per_byte.saturating_mul(bytes) / 16;
        let back = if scan.stepping_back == 0 { 0 } else { scan.stepping_back.saturating_mul(stepping_back(bytes)) };
        self.spend(times.saturating_mul(read.saturating_add(back)))
    }

    fn items(&mut self, items: &[Value], applied: &[(&Node, u64)], path_bytes: u64) -> Option<()> {
        for (_, times) in applied.iter().filter(|(node, _)| node.unique) {
            let values: u64 = items.iter().map(values_in).sum();
            let nested = items.iter().any(|item| item.is_array() || item.is_object());
            let compared = if nested { comparing(items.len() as u64, values) } else { 0 };
            self.spend(times.saturating_mul(values.saturating_add(compared)))?;
        }
        let first = applied.iter().map(|(node, _)| node.first_items.len()).max().unwrap_or(0);
        let mut below = Applied::new();
        for (index, item) in items.iter().enumerate() {
            // From here on, all items meet the same.
            if index <= first {
                below.clear();
                for (node, times) in applied {
                    let own = node.first_items.get(index).map(std::slice::from_ref);
                    apply(&mut below, own.unwrap_or(&node.other_items), *times);
                    apply(&mut below, &node.any_item, *times);
                }
            }
            self.value(item, &below, path_bytes + 8)?;
        }
        Some(())
    }

    fn members(
        &mut self,
        members: &serde_json::Map<String, Value>,
        applied: &[(&Node, u64)],
        path_bytes: u64,
    ) -> Option<()> {
        for (name, member) in members {
            let (mut below, mut names) = (Applied::new(), Applied::new());
            for (node, times) in applied {
                self.scan(name, node.names, *times)?;
                match node.members.get(name.as_str()) {
                    Some(own) => apply(&mut below, std::slice::from_ref(own), *times),
                    None => apply(&mut below, &node.other_members, *times),
                }
                apply(&mut below, &node.any_member, *times);
                apply(&mut names, &node.member_names, *times);
                // One step to look the name up, and its place in a list of those not allowed.
                self.spend(*times)?;
                let failure_bytes = times.saturating_mul(name.len() as u64);
                self.cost.failure_bytes = self.cost.failure_bytes.saturating_add(failure_bytes);
            }
            if !names.is_empty() {
                let names = self.in_place(&names, path_bytes)?;
                self.text(name, &names)?;
            }
            self.value(member, &below, path_bytes.saturating_add(name.len() as u64 + 1))?;
        }
        Some(())
    }
}

fn apply(below: &mut Applied, targets: &[NodeId], times: u64) {
    for target in targets {
        let sum = below.entry(*target).or_default();
        *sum = sum.saturating_add(times);
    }
}
