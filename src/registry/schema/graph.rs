//! Which subschema applies where: a schema read into a graph, with each `$ref` followed.
//!
//! The graph is read for what a check may cost and not for what it answers, so it errs on the
//! side of too many edges: keywords of every draft count, `anyOf` takes all its branches, and a
//! dynamic reference leads to each anchor of its name.

use std::collections::HashMap;
use std::sync::Arc;

use jsonschema::{Draft, Registry, Retrieve, Uri};
use serde_json::Value;

use crate::model::Error;

use super::patterns::{self, Pattern};
use super::places::{Places, address, values_in};
use super::{MAX_ALL_STATES, MAX_NODES, join, refuse};

/// A subschema, by its index in [`Graph::nodes`].
pub(super) type NodeId = usize;

/// What looking through a text costs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scan {
    /// Sixteenths of a step for each byte.
    pub(super) per_byte: u64,
    /// Patterns that may step back.
    pub(super) stepping_back: u64,
}

/// One subschema: what it costs by itself, and the subschemas it applies.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Where it stands; the reference to it, if it is a draft's.
    pub(super) pointer: String,
    /// Rules it has by itself: keywords, names, values to compare with.
    pub(super) rules: u64,
    /// What it does with a string.
    pub(super) text: Scan,
    /// What it does with the name of a member.
    pub(super) names: Scan,
    /// Whether it compares the items of an array with each other.
    pub(super) unique: bool,
    /// Whether it looks for what other subschemas left.
    pub(super) unevaluated: bool,
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
        let resource = draft.create_resource_ref(schema);
        let base = jsonschema::uri::from_str(resource.id().unwrap_or(""))
            .map_err(|error| refuse(format!("/{}", draft.id_keyword()), error.to_string()))?;
        let registry = Registry::new()
            .draft(draft)
            .retriever(Nowhere)
            .add(base.as_str(), draft.create_resource_ref(schema))
            .and_then(jsonschema::RegistryBuilder::prepare)
            .map_err(|error| unresolved(schema, &error))?;
        let mut reader = Reader::new(&registry, places);
        reader.node(schema, &Arc::new(base), draft, "")?;
        while let Some(subschema) = reader.unread.pop() {
            reader.read(&subschema)?;
        }
        reader.tie_dynamic_references();
        Ok(Self { nodes: reader.nodes })
    }

    /// Whether any pattern needs a matcher that steps back.
    pub(super) fn steps_back(&self) -> bool {
        self.nodes.iter().any(|node| node.text.stepping_back + node.names.stepping_back > 0)
    }
}

/// The draft of `schema`, which stands at `pointer` in one of draft `outer`.
fn dialect(schema: &Value, pointer: &str, outer: Draft) -> Result<Draft, Error> {
    match outer.detect(schema) {
        Draft::Unknown => Err(refuse(
            join(pointer, "$schema"),
            "`$schema` is not one of the drafts 4, 6, 7, 2019-09 and 2020-12 of JSON Schema",
        )),
        draft => Ok(draft),
    }
}

/// Fetches nothing.
struct Nowhere;

impl Retrieve for Nowhere {
    fn retrieve(&self, _: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err("schemas are not fetched".into())
    }
}

/// A reference in `schema` that the registry could not resolve, with the place it stands at.
fn unresolved(schema: &Value, error: &jsonschema::ReferencingError) -> Error {
    let jsonschema::ReferencingError::Unretrievable { uri, .. } = error else {
        return refuse("", format!("a reference in the schema cannot be followed: {error}"));
    };
    let uri = uri.split('#').next().unwrap_or_default();
    let mut open = vec![(schema, String::new())];
    while let Some((value, pointer)) = open.pop() {
        let Value::Object(members) = value else {
            let items = value.as_array().into_iter().flatten().enumerate();
            open.extend(items.map(|(index, item)| (item, join(&pointer, &index.to_string()))));
            continue;
        };
        for (name, member) in members {
            let target = member.as_str().map(|text| text.split('#').next().unwrap_or_default());
            if name.starts_with('$') && target.is_some_and(|target| !target.is_empty() && uri.ends_with(target)) {
                return refuse(join(&pointer, name), ELSEWHERE);
            }
            open.push((member, join(&pointer, name)));
        }
    }
    refuse("", ELSEWHERE)
}

const ELSEWHERE: &str =
    "the reference leads out of the schema, and schemas are not fetched; put its target under `$defs`";

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
            Some(id) => self.registry.resolve_uri(&base.borrow(), id).map_err(|error| {
                refuse(join(pointer, draft.id_keyword()), error.to_string())
            })?,
            None => Arc::clone(base),
        };
        if let Some(id) = self.ids.get(&(address(schema), Arc::clone(&base))) {
            return Ok(*id);
        }
        let id = self.nodes.len();
        if id >= MAX_NODES {
            return Err(refuse(pointer, format!("the schema has more than {MAX_NODES} subschemas")));
        }
        self.nodes.push(Node { pointer: pointer.to_owned(), rules: 1, ..Node::default() });
        self.ids.insert((address(schema), Arc::clone(&base)), id);
        self.unread.push(Unread { id, schema, base, draft });
        Ok(id)
    }

    fn read(&mut self, at: &Unread<'r>) -> Result<(), Error> {
        let Some(members) = at.schema.as_object() else { return Ok(()) };
        for (keyword, value) in members {
            self.nodes[at.id].rules += 1;
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
            "not" | "if" | "then" | "else" | "additionalProperties" | "unevaluatedProperties" | "propertyNames"
            | "items" | "additionalItems" | "contains" | "unevaluatedItems" => self.all_below(at, keyword, one())?,
            _ => return Ok(()),
        };
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
            "enum" | "const" | "required" | "dependentRequired" | "dependencies" => node.rules += values_in(value),
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
        if self.states > MAX_ALL_STATES {
            return Err(refuse(pointer, "the patterns of the schema are too large together"));
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
    fn tie_dynamic_references(&mut self) {
        for (name, from) in &self.dynamic {
            let node = &mut self.nodes[*from];
            for (anchor, target) in &self.anchors {
                if anchor == name && !node.in_place.contains(target) {
                    node.in_place.push(*target);
                }
            }
        }
    }
}

fn add(scan: &mut Scan, pattern: Pattern) {
    scan.per_byte += pattern.states;
    scan.stepping_back += u64::from(pattern.steps_back);
}
