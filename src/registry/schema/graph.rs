//! Which subschema applies where: a schema read into a graph, with each `$ref` followed.
//!
//! The graph is read for what a check may cost and not for what it answers, so it errs on the
//! side of too many edges: keywords of every draft count, `anyOf` takes all its branches, and a
//! dynamic reference leads to each anchor of its name.

use std::collections::HashMap;
use std::sync::Arc;

use jsonschema::{Draft, Registry, Uri};
use serde_json::Value;

use crate::model::Error;

use super::dispatch::{self, Dispatch};
use super::patterns::{self, Pattern};
use super::places::{Places, address, values_in};
use super::resources::{ELSEWHERE, dialect, resources};
use super::{MAX_ALL_STATES, MAX_DYNAMIC, MAX_NODES, MAX_PATTERNS, join, refuse};

/// A subschema, by its index in [`Graph::nodes`].
pub(super) type NodeId = usize;

/// What looking through a text costs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scan {
    /// Sixteenths of a step for each byte.
    pub(super) per_byte: u64,
    /// Patterns that may step back again and again.
    pub(super) stepping_back: u64,
}

/// One subschema: what it costs by itself, and the subschemas it applies.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Where it stands; the reference to it, if it is a draft's.
    pub(super) pointer: String,
    /// The resource it belongs to: the first is that of the whole schema. Those of a draft are one.
    pub(super) resource: usize,
    /// Rules it has by itself: keywords, names, values to compare with.
    pub(super) rules: u64,
    /// Failures it may have by itself.
    pub(super) failures: u64,
    /// Whether it is a branch of `anyOf` or `oneOf`, whose failures are kept with their values.
    pub(super) branch: bool,
    /// What it does with a string.
    pub(super) text: Scan,
    /// What it does with the name of a member.
    pub(super) names: Scan,
    /// Whether it compares the items of an array with each other.
    pub(super) unique: bool,
    /// Whether it looks for what other subschemas left.
    pub(super) unevaluated: bool,
    /// How the branches among [`Node::in_place`] are told apart, if they are.
    pub(super) dispatch: Option<Dispatch>,
    /// Subschemas of the same place.
    pub(super) in_place: Vec<NodeId>,
    /// Subschemas of members, by name.
    pub(super) members: HashMap<Box<str>, NodeId>,
    /// Subschemas of members without one by name.
    pub(super) other_members: Vec<NodeId>,
    /// Subschemas that each member may meet.
    pub(super) any_member: Vec<NodeId>,
    /// Subschemas of the names of members.
    pub(super) member_names: Vec<NodeId>,
    /// Subschemas of the first items.
    pub(super) first_items: Vec<NodeId>,
    /// Subschemas of the items after those.
    pub(super) other_items: Vec<NodeId>,
    /// Subschemas that each item may meet.
    pub(super) any_item: Vec<NodeId>,
}

impl Node {
    /// The subschemas of places below.
    pub(super) fn below(&self) -> impl Iterator<Item = NodeId> {
        let lists = [&self.other_members, &self.any_member, &self.member_names];
        let items = [&self.first_items, &self.other_items, &self.any_item];
        self.members.values().copied().chain(lists.into_iter().chain(items).flatten().copied())
    }
}

/// A schema's subschemas.
#[derive(Debug)]
pub(super) struct Graph {
    /// The first is the whole schema.
    pub(super) nodes: Vec<Node>,
    /// Whether any pattern needs a matcher that steps back.
    pub(super) steps_back: bool,
}

impl Graph {
    /// Reads a schema.
    ///
    /// # Errors
    ///
    /// `invalid_manifest` for a dialect that is no draft, a reference that leads elsewhere or
    /// nowhere, a pattern that is too costly, or too many subschemas.
    pub(super) fn read(places: &Places<'_>) -> Result<Self, Error> {
        let schema = places.schema();
        let draft = dialect(schema, "", Draft::default())?;
        let (registry, base) = resources(schema, draft)?;
        let mut reader = Reader::new(&registry, places);
        reader.node(schema, &Arc::new(base), draft, "")?;
        while let Some(subschema) = reader.unread.pop() {
            reader.read(&subschema)?;
        }
        reader.tie_dynamic_references()?;
        let steps_back = reader.patterns.values().any(|pattern| pattern.steps_back);
        Ok(Self { nodes: reader.nodes, steps_back })
    }
}

/// A subschema whose keywords are still to be read.
struct Unread<'r> {
    id: NodeId,
    schema: &'r Value,
    base: Arc<Uri<String>>,
    draft: Draft,
}

struct Reader<'r> {
    registry: &'r Registry<'r>,
    places: &'r Places<'r>,
    patterns: HashMap<&'r str, Pattern>,
    states: u64,
    /// One part under two base URIs is two subschemas: its references may lead elsewhere.
    ids: HashMap<(usize, Arc<Uri<String>>), NodeId>,
    resources: HashMap<Option<Arc<Uri<String>>>, usize>,
    nodes: Vec<Node>,
    unread: Vec<Unread<'r>>,
    /// Dynamic anchors by name; that of `$recursiveAnchor` has none.
    anchors: Vec<(Option<&'r str>, NodeId)>,
    dynamic: Vec<(Option<&'r str>, NodeId)>,
}

impl<'r> Reader<'r> {
    fn new(registry: &'r Registry<'r>, places: &'r Places<'r>) -> Self {
        Self {
            registry,
            places,
            patterns: HashMap::new(),
            states: 0,
            ids: HashMap::new(),
            resources: HashMap::new(),
            nodes: Vec::new(),
            unread: Vec::new(),
            anchors: Vec::new(),
            dynamic: Vec::new(),
        }
    }

    /// The node of `schema`, which is found under `base`; `from` says where, if it is a draft's.
    fn node(&mut self, schema: &'r Value, base: &Arc<Uri<String>>, draft: Draft, from: &str) -> Result<NodeId, Error> {
        let pointer = self.places.pointer(schema).unwrap_or(from);
        let draft = dialect(schema, pointer, draft)?;
        let base = match draft.create_resource_ref(schema).id() {
            Some(id) => self
                .registry
                .resolve_uri(&base.borrow(), id)
                .map_err(|error| refuse(join(pointer, draft.id_keyword()), error.to_string()))?,
            None => Arc::clone(base),
        };
        if let Some(id) = self.ids.get(&(address(schema), Arc::clone(&base))) {
            return Ok(*id);
        }
        let id = self.nodes.len();
        if id >= MAX_NODES {
            return Err(refuse(pointer, format!("the schema has more than {MAX_NODES} subschemas")));
        }
        let next = self.resources.len();
        let is_ours = self.places.pointer(schema).is_some();
        let resource = *self.resources.entry(is_ours.then(|| Arc::clone(&base))).or_insert(next);
        self.nodes.push(Node { pointer: pointer.to_owned(), resource, rules: 1, failures: 1, ..Node::default() });
        self.ids.insert((address(schema), Arc::clone(&base)), id);
        self.unread.push(Unread { id, schema, base, draft });
        Ok(id)
    }

    fn read(&mut self, at: &Unread<'r>) -> Result<(), Error> {
        let Some(members) = at.schema.as_object() else { return Ok(()) };
        for (keyword, value) in members {
            self.nodes[at.id].rules += 1;
            self.nodes[at.id].failures += 1;
            self.reference(at, keyword, value)?;
            self.applicator(at, keyword, value)?;
            self.assertion(at, keyword, value)?;
        }
        Ok(())
    }

    fn below(&mut self, at: &Unread<'r>, keyword: &str, schema: &'r Value) -> Result<NodeId, Error> {
        let from = join(&self.nodes[at.id].pointer, keyword);
        self.node(schema, &at.base, at.draft, &from)
    }

    fn all_below<I>(&mut self, at: &Unread<'r>, keyword: &str, schemas: I) -> Result<Vec<NodeId>, Error>
    where
        I: IntoIterator<Item = &'r Value>,
    {
        schemas.into_iter().map(|schema| self.below(at, keyword, schema)).collect()
    }

    /// Adds what `keyword` applies.
    fn applicator(&mut self, at: &Unread<'r>, keyword: &'r str, value: &'r Value) -> Result<(), Error> {
        let one = || std::iter::once(value);
        let list = || value.as_array().into_iter().flatten();
        let map = || value.as_object().into_iter().flatten();
        let is_schema = |value: &&Value| value.is_object() || value.is_boolean();
        let found = match keyword {
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => self.all_below(at, keyword, list())?,
            "dependentSchemas" | "dependencies" => {
                self.all_below(at, keyword, map().map(|(_, schema)| schema).filter(is_schema))?
            }
            "patternProperties" => {
                for (pattern, _) in map() {
                    let cost = self.pattern(pattern, &join(&join(&self.nodes[at.id].pointer, keyword), pattern))?;
                    add(&mut self.nodes[at.id].names, cost);
                }
                self.all_below(at, keyword, map().map(|(_, schema)| schema))?
            }
            "properties" => {
                for (name, schema) in map() {
                    let id = self.below(at, keyword, schema)?;
                    self.nodes[at.id].members.insert(name.as_str().into(), id);
                }
                return Ok(());
            }
            "items" if value.is_array() => self.all_below(at, keyword, list())?,
            "not"
            | "if"
            | "then"
            | "else"
            | "additionalProperties"
            | "unevaluatedProperties"
            | "propertyNames"
            | "items"
            | "additionalItems"
            | "contains"
            | "unevaluatedItems" => self.all_below(at, keyword, one())?,
            _ => return Ok(()),
        };
        if matches!(keyword, "anyOf" | "oneOf") {
            found.iter().for_each(|branch| self.nodes[*branch].branch = true);
            self.nodes[at.id].dispatch = value.as_array().and_then(|branches| self.dispatch(at, branches, &found));
        }
        let node = &mut self.nodes[at.id];
        node.unevaluated |= keyword.starts_with("unevaluated");
        node.rules += found.len() as u64;
        let edges = match keyword {
            "patternProperties" | "unevaluatedProperties" => &mut node.any_member,
            "additionalProperties" => &mut node.other_members,
            "propertyNames" => &mut node.member_names,
            "prefixItems" => &mut node.first_items,
            "items" if value.is_array() => &mut node.first_items,
            "items" | "additionalItems" => &mut node.other_items,
            "contains" | "unevaluatedItems" => &mut node.any_item,
            _ => &mut node.in_place,
        };
        edges.extend(found);
        Ok(())
    }

    /// How `branches`, whose nodes are `ids`, are told apart.
    fn dispatch(&self, at: &Unread<'r>, branches: &'r [Value], ids: &[NodeId]) -> Option<Dispatch> {
        // Another union or reference beside it may lead to the same nodes.
        let keywords = ["anyOf", "oneOf", "allOf", "$ref", "$dynamicRef", "$recursiveRef"];
        if at.draft == Draft::Draft4 || keywords.iter().filter(|keyword| at.schema.get(keyword).is_some()).count() > 1 {
            return None;
        }
        let follow = |schema: &'r Value| {
            let Some(reference) = schema.get("$ref") else { return Some(schema) };
            let resolved = self.registry.resolver((*at.base).clone()).lookup(reference.as_str()?).ok()?;
            let (target, resolver, draft) = resolved.into_inner();
            let is_alone = schema.as_object().is_some_and(|members| members.len() == 1) && target.get("$ref").is_none();
            (is_alone && draft == at.draft && resolver.base_uri() == at.base).then_some(target)
        };
        let (member, texts) = dispatch::telling_member(branches, &follow)?;
        Some(Dispatch { member, branches: ids.iter().copied().zip(texts).collect() })
    }

    /// Adds what `keyword` costs by itself.
    fn assertion(&mut self, at: &Unread<'r>, keyword: &str, value: &'r Value) -> Result<(), Error> {
        let per_byte = match keyword {
            "pattern" => {
                let Some(pattern) = value.as_str() else { return Ok(()) };
                let cost = self.pattern(pattern, &join(&self.nodes[at.id].pointer, keyword))?;
                add(&mut self.nodes[at.id].text, cost);
                0
            }
            "minLength" | "maxLength" => 1,
            "format" | "contentEncoding" | "contentMediaType" => 4,
            _ => 0,
        };
        let node = &mut self.nodes[at.id];
        node.text.per_byte += per_byte;
        match keyword {
            "enum" | "const" => node.rules += values_in(value),
            "required" | "dependentRequired" | "dependencies" => {
                node.rules += values_in(value);
                node.failures += values_in(value);
            }
            "properties" => node.rules += node.members.len() as u64,
            "uniqueItems" => node.unique |= value == &Value::Bool(true),
            _ => {}
        }
        Ok(())
    }

    fn pattern(&mut self, pattern: &'r str, pointer: &str) -> Result<Pattern, Error> {
        if let Some(known) = self.patterns.get(pattern) {
            return Ok(*known);
        }
        let cost = patterns::estimate(pattern).map_err(|detail| refuse(pointer, detail))?;
        self.states += cost.states;
        if self.states > MAX_ALL_STATES || self.patterns.len() >= MAX_PATTERNS {
            return Err(refuse(pointer, "the patterns of the schema are too many or too large together"));
        }
        self.patterns.insert(pattern, cost);
        Ok(cost)
    }

    /// Follows `keyword` if it is a reference, and notes anchors that a dynamic one may lead to.
    fn reference(&mut self, at: &Unread<'r>, keyword: &str, value: &'r Value) -> Result<(), Error> {
        match (keyword, value) {
            // Those of a draft's own schema are reached by `follow_in_draft`.
            ("$dynamicAnchor" | "$recursiveAnchor", _) if self.places.pointer(at.schema).is_none() => {}
            ("$dynamicAnchor", Value::String(name)) => self.anchors.push((Some(name), at.id)),
            ("$recursiveAnchor", Value::Bool(true)) => self.anchors.push((None, at.id)),
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                let pointer = join(&self.nodes[at.id].pointer, keyword);
                let target = self.follow(reference, at, &pointer)?;
                self.nodes[at.id].in_place.push(target);
                let name = reference.rsplit_once('#').map(|(_, name)| name);
                if keyword != "$ref" {
                    self.dynamic.push((name.filter(|_| keyword == "$dynamicRef"), at.id));
                    self.follow_in_draft(at, &pointer)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn follow(&mut self, reference: &str, at: &Unread<'r>, pointer: &str) -> Result<NodeId, Error> {
        let resolver = self.registry.resolver((*at.base).clone());
        let resolved = resolver.lookup(reference).map_err(|error| match error {
            jsonschema::ReferencingError::Unretrievable { .. } => refuse(pointer, ELSEWHERE),
            _ => refuse(pointer, format!("the reference leads nowhere: {error}")),
        })?;
        let (target, resolver, draft) = resolved.into_inner();
        if !(target.is_object() || target.is_boolean()) {
            return Err(refuse(pointer, "the reference does not lead to a schema"));
        }
        self.node(target, &resolver.base_uri(), draft, pointer)
    }

    /// A dynamic reference inside a draft's own schema leads, from outside, to the whole of it.
    fn follow_in_draft(&mut self, at: &Unread<'r>, pointer: &str) -> Result<(), Error> {
        let base = at.base.as_str();
        let whole = ["2020-12", "2019-09"].into_iter().find(|draft| {
            base.strip_prefix("https://json-schema.org/draft/").is_some_and(|rest| rest.starts_with(draft))
        });
        if let Some(draft) = whole.filter(|_| self.places.pointer(at.schema).is_none()) {
            let whole = self.follow(&format!("https://json-schema.org/draft/{draft}/schema"), at, pointer)?;
            self.nodes[at.id].in_place.push(whole);
        }
        Ok(())
    }

    /// Adds what a dynamic reference may lead to besides what it names.
    fn tie_dynamic_references(&mut self) -> Result<(), Error> {
        if self.dynamic.len().saturating_mul(self.anchors.len()) > MAX_DYNAMIC {
            return Err(refuse("", "the schema has too many dynamic references and anchors"));
        }
        for (name, from) in &self.dynamic {
            let node = &mut self.nodes[*from];
            for (anchor, target) in &self.anchors {
                if anchor == name && !node.in_place.contains(target) {
                    node.in_place.push(*target);
                }
            }
        }
        Ok(())
    }
}

fn add(scan: &mut Scan, pattern: Pattern) {
    scan.per_byte += pattern.states;
    scan.stepping_back += u64::from(pattern.again);
}
