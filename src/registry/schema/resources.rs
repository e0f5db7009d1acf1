//! What a schema's references lead to. Nothing is fetched.

use jsonschema::{Draft, Registry, Retrieve, Uri};
use serde_json::Value;

use crate::model::Error;

use super::{join, refuse};

/// The parts of `schema` with an `$id`, those of its draft, and the base of its references.
///
/// # Errors
///
/// `invalid_manifest` if its `$id` is none, or a reference leads out of it.
pub(super) fn resources(schema: &Value, draft: Draft) -> Result<(Registry<'_>, Uri<String>), Error> {
    let resource = draft.create_resource_ref(schema);
    let base = jsonschema::uri::from_str(resource.id().unwrap_or(""))
        .map_err(|error| refuse(format!("/{}", draft.id_keyword()), error.to_string()))?;
    let registry = Registry::new()
        .draft(draft)
        .retriever(Nowhere)
        .add(base.as_str(), draft.create_resource_ref(schema))
        .and_then(jsonschema::RegistryBuilder::prepare)
        .map_err(|error| unresolved(schema, &error))?;
    Ok((registry, base))
}

/// The draft of `schema`, which stands at `pointer` in one of draft `outer`.
pub(super) fn dialect(schema: &Value, pointer: &str, outer: Draft) -> Result<Draft, Error> {
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

/// Said of a reference to what is not in the schema.
pub(super) const ELSEWHERE: &str =
    "the reference leads out of the schema, and schemas are not fetched; put its target under `$defs`";
