//! How many steps the check of one value can take, counted before it is checked.
//!
//! The value and the graph are walked together. Each place of the value has a list of the
//! subschemas that apply there, with how many times: once for each way that leads to them. The
//! validator may stop earlier, so the count is a bound, but one that knows the value: recursion
//! that branches is refused for the values on which it does, and for no other.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::bounds::{Bounds, MAX_RUNS, Size, comparing, is_endless, stepping_back};
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

/// What a check is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To know whether a value is valid.
    Verdict,
    /// To know all that is wrong: branches are looked at even if a member tells them apart.
    Failures,
}

/// Counts the steps of checking `value`, which is not deeper than [`MAX_DEPTH`]; none if they are
/// more than [`MAX_STEPS`].
pub(super) fn count(graph: &Graph, bounds: &Bounds, value: &Value, purpose: Purpose) -> Option<Cost> {
    let mut meter = Meter { graph, bounds, purpose, cost: Cost::default(), endless: 0, back: 0 };
    meter.value(value, &Applied::from([(0, Times { checked: 1, ..Times::default() })]), 0)?;
    let runs = if meter.endless < u64::from(MAX_RUNS.ilog2()) { 1 << meter.endless } else { MAX_RUNS };
    meter.cost.steps = meter.cost.steps.saturating_mul(runs).saturating_add(meter.back);
    (meter.cost.steps <= MAX_STEPS).then_some(meter.cost)
}

/// How often a subschema applies to one place.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// Times it is checked.
    checked: u64,
    /// Times it is looked through for what it left.
    looked: u64,
    /// Whether its failures are those of a branch, which keep a copy of their value.
    in_branch: bool,
}

impl Times {
    fn all(self) -> u64 {
        self.checked.saturating_add(self.looked)
    }

    fn add(&mut self, more: Self) {
        self.checked = self.checked.saturating_add(more.checked);
        self.looked = self.looked.saturating_add(more.looked);
        self.in_branch |= more.in_branch;
    }

    /// For subschemas of places below: there, nothing is looked through.
    fn below(self) -> Self {
        Self { checked: self.all(), looked: 0, in_branch: self.in_branch }
    }
}

/// Subschemas that apply to one place.
type Applied = BTreeMap<NodeId, Times>;

struct Meter<'g> {
    graph: &'g Graph,
    bounds: &'g Bounds,
    purpose: Purpose,
    cost: Cost,
    /// Matches that may not come to an end.
    endless: u64,
    /// Steps of patterns that step back.
    back: u64,
}

impl<'g> Meter<'g> {
    fn spend(&mut self, steps: u64) -> Option<()> {
        self.cost.steps = self.cost.steps.saturating_add(steps);
        (self.cost.steps.saturating_add(self.back) <= MAX_STEPS).then_some(())
    }

    fn keep(&mut self, failures: u64, bytes: u64) {
        self.cost.failure_bytes = self.cost.failure_bytes.saturating_add(failures.saturating_mul(bytes));
    }

    fn value(&mut self, value: &Value, applied: &Applied, path_bytes: u64) -> Option<()> {
        if applied.is_empty() {
            return Some(());
        }
        let applied = self.in_place(applied, value.as_object(), path_bytes)?;
        if self.purpose == Purpose::Failures {
            let kept = applied.iter().filter(|(_, times)| times.in_branch);
            let failures = kept.map(|(node, times)| times.all().saturating_mul(node.failures));
            self.keep(failures.fold(0, u64::saturating_add), memory(value));
        }
        match value {
            Value::String(text) => self.text(text, &applied),
            Value::Array(items) => self.items(items, &applied, path_bytes),
            Value::Object(members) => self.members(members, &applied, path_bytes),
            _ => Some(()),
        }
    }

    /// All subschemas of a place, from those that are applied from above. Spends their rules.
    /// `object` is what stands there, if it is one.
    fn in_place(
        &mut self,
        applied: &Applied,
        object: Option<&Map<String, Value>>,
        path_bytes: u64,
    ) -> Option<Vec<(&'g Node, Times)>> {
        let key = |id: NodeId| (Reverse(self.bounds.heights[id]), id);
        let mut open: BTreeMap<_, Times> = applied.iter().map(|(id, times)| (key(*id), *times)).collect();
        let mut all = Vec::with_capacity(open.len());
        let (mut steps, mut failure_bytes) = (0u64, 0u64);
        while let Some(((_, id), mut times)) = open.pop_first() {
            let node = &self.graph.nodes[id];
            times.in_branch |= node.branch;
            if node.unevaluated {
                times.looked = times.all();
            }
            steps = steps.saturating_add(times.all().saturating_mul(node.rules));
            let failures = times.all().saturating_mul(node.failures);
            failure_bytes = failure_bytes.saturating_add(failures.saturating_mul(FAILURE_BYTES + path_bytes));
            // What is looked through is checked for that, too.
            let again = Times { checked: times.all(), ..times };
            let told = object.filter(|_| self.purpose == Purpose::Verdict && times.looked == 0);
            let told = node.dispatch.as_ref().zip(told);
            for target in &node.in_place {
                if told.is_some_and(|(dispatch, object)| dispatch.passes_over(*target, object)) {
                    continue;
                }
                open.entry(key(*target)).or_default().add(again);
            }
            all.push((node, times));
        }
        self.keep(1, failure_bytes);
        self.spend(steps)?;
        Some(all)
    }

    fn text(&mut self, text: &str, applied: &[(&Node, Times)]) -> Option<()> {
        applied.iter().try_for_each(|(node, times)| self.scan(text, node.text, times.all()))
    }

    fn scan(&mut self, text: &str, scan: Scan, times: u64) -> Option<()> {
        let bytes = text.len() as u64;
        let matches = times.saturating_mul(scan.stepping_back);
        if matches > 0 {
            self.back = self.back.saturating_add(matches.saturating_mul(stepping_back(bytes)));
            self.endless = self.endless.saturating_add(if is_endless(bytes) { matches } else { 0 });
        }
        self.spend(times.saturating_mul(scan.per_byte.saturating_mul(bytes) / 16))
    }

    fn items(&mut self, items: &[Value], applied: &[(&Node, Times)], path_bytes: u64) -> Option<()> {
        for (_, times) in applied.iter().filter(|(node, _)| node.unique) {
            let values: u64 = items.iter().map(values_in).sum();
            let nested = items.iter().any(|item| item.is_array() || item.is_object());
            let compared = if nested { comparing(items.len() as u64, values) } else { 0 };
            self.spend(times.all().saturating_mul(values.saturating_add(compared)))?;
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

    fn members(&mut self, members: &Map<String, Value>, applied: &[(&Node, Times)], path_bytes: u64) -> Option<()> {
        for (name, member) in members {
            let (mut below, mut names) = (Applied::new(), Applied::new());
            for (node, times) in applied {
                self.scan(name, node.names, times.all())?;
                match node.members.get(name.as_str()) {
                    Some(own) => apply(&mut below, std::slice::from_ref(own), *times),
                    None => apply(&mut below, &node.other_members, *times),
                }
                apply(&mut below, &node.any_member, *times);
                apply(&mut names, &node.member_names, *times);
                // One step to look the name up, and its place in a list of those not allowed.
                self.spend(times.all())?;
                self.keep(times.all(), name.len() as u64);
            }
            if !names.is_empty() {
                let names = self.in_place(&names, None, path_bytes.saturating_add(name.len() as u64))?;
                self.text(name, &names)?;
            }
            self.value(member, &below, path_bytes.saturating_add(name.len() as u64 + 1))?;
        }
        Some(())
    }
}

fn apply(below: &mut Applied, targets: &[NodeId], times: Times) {
    for target in targets {
        below.entry(*target).or_default().add(times.below());
    }
}

/// Memory that a copy of `value` takes, roughly.
fn memory(value: &Value) -> u64 {
    const VALUE_BYTES: u64 = 80;
    VALUE_BYTES
        + match value {
            Value::String(text) => text.len() as u64,
            Value::Array(items) => items.iter().map(memory).sum(),
            Value::Object(members) => members.iter().map(|(name, member)| name.len() as u64 + memory(member)).sum(),
            _ => 0,
        }
}
