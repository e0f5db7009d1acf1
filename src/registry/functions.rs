//! The functions of a skill: which one a caller means, and what checks what goes in and out.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::model::{Code, Error, Function, Schemas, Skill, quotable};

use super::{Checker, RegisteredSkill};

/// Most names that a refusal lists.
const MAX_LISTED: usize = 50;

/// What is worked out from one function once.
#[derive(Debug)]
pub(super) struct Checked {
    name: Arc<str>,
    input: OnceLock<Result<Checker, String>>,
    output: OnceLock<Result<Checker, String>>,
}

impl Checked {
    /// Nothing of the functions of a skill.
    pub(super) fn all(skill: &Skill) -> Vec<Self> {
        let unchecked = |function: &Function| Self {
            name: function.name.as_str().into(),
            input: OnceLock::new(),
            output: OnceLock::new(),
        };
        skill.functions.iter().map(unchecked).collect()
    }
}

impl RegisteredSkill {
    /// Which of its functions `name` means: the only one that can be called where it is none.
    ///
    /// # Errors
    ///
    /// `not_found` for a name that it has not, `not_supported` for one that cannot be called,
    /// with the reason, and `malformed` where none is named and there are several.
    pub fn function(&self, name: Option<&str>) -> Result<usize, Error> {
        let functions = &self.skill.functions;
        let Some(name) = name else { return self.only_function() };
        let found = functions.iter().position(|function| function.name == name);
        let found = found.ok_or_else(|| Error::not_found("function"))?;
        let function = &functions[found];
        if function.callable {
            return Ok(found);
        }
        let reason = function.reason.as_deref().unwrap_or("has no reason recorded");
        let detail = format!("`{}` cannot be called: it {reason}", quotable(name));
        Err(Error::at(Code::NotSupported, "/skillId", detail))
    }

    fn only_function(&self) -> Result<usize, Error> {
        let functions = self.skill.functions.iter().enumerate().filter(|(_, function)| function.callable);
        let mut functions = functions.map(|(at, function)| (at, function.name.as_str()));
        match (functions.next(), functions.next()) {
            (Some((only, _)), None) => Ok(only),
            (None, _) => Err(Error::not_found("function")),
            (Some((_, first)), Some((_, second))) => {
                let names: Vec<_> =
                    [first, second].into_iter().chain(functions.map(|(_, name)| name)).take(MAX_LISTED).collect();
                let detail = format!(
                    "{} has several functions; name one as `{}#{first}`: {}",
                    self.address,
                    self.skill.name,
                    names.join(", ")
                );
                Err(Error::at(Code::Malformed, "/skillId", detail))
            }
        }
    }

    /// The name of a function.
    pub fn function_name(&self, function: usize) -> Arc<str> {
        self.checked.get(function).map(|checked| Arc::clone(&checked.name)).unwrap_or_default()
    }

    /// What checks arguments, if the function has an input schema.
    ///
    /// # Errors
    ///
    /// `internal` if the schema, which was checked at registration, no longer compiles.
    pub fn input(&self, function: usize) -> Result<Option<&Checker>, Error> {
        let schema = self.skill.functions.get(function).and_then(|function| function.schema.input.as_ref());
        self.checked.get(function).map_or(Ok(None), |checked| compiled(schema, &checked.input))
    }

    /// What checks outputs, if the function has an output schema.
    ///
    /// # Errors
    ///
    /// As [`RegisteredSkill::input`].
    pub fn output(&self, function: usize) -> Result<Option<&Checker>, Error> {
        let schema = self.skill.functions.get(function).and_then(|function| function.schema.output.as_ref());
        self.checked.get(function).map_or(Ok(None), |checked| compiled(schema, &checked.output))
    }
}

fn compiled<'a>(
    schema: Option<&Value>,
    cell: &'a OnceLock<Result<Checker, String>>,
) -> Result<Option<&'a Checker>, Error> {
    let Some(schema) = schema else { return Ok(None) };
    let compiled = cell.get_or_init(|| Checker::compile(schema).map_err(|error| error.detail));
    compiled.as_ref().map(Some).map_err(|error| Error::internal(error.clone()))
}

/// The functions of a component with what its manifest says of them, and the schemas of the
/// skill: those of its only function.
///
/// # Errors
///
/// `invalid_manifest` for schemas where there are several functions; `invalid_component` where
/// none is left that can be called.
pub(super) fn described(
    mut functions: Vec<Function>,
    manifest: Schemas,
    description: &str,
) -> Result<(Vec<Function>, Schemas), Error> {
    functions.iter_mut().for_each(refuse_unusable);
    let mut callable: Vec<&mut Function> = functions.iter_mut().filter(|function| function.callable).collect();
    let skill = match &mut callable[..] {
        [] => {
            let detail = "it has no function that can be called with JSON";
            return Err(Error::new(Code::InvalidComponent, detail));
        }
        [only] => {
            if !description.is_empty() {
                description.clone_into(&mut only.description);
            }
            only.schema.input = manifest.input.or_else(|| only.schema.input.take());
            only.schema.output = manifest.output.or_else(|| only.schema.output.take());
            only.schema.clone()
        }
        _ if manifest == Schemas::default() => manifest,
        _ => {
            let detail = "the skill has several functions, whose schemas are those of their types; leave `schema` out";
            return Err(Error::at(Code::InvalidManifest, "/schema", detail));
        }
    };
    Ok((functions, skill))
}

/// A schema that cannot be checked against is one for which the function cannot be called.
fn refuse_unusable(function: &mut Function) {
    let parts = [&function.schema.input, &function.schema.output];
    let failed = parts.into_iter().flatten().find_map(|schema| Checker::compile(schema).err());
    if let Some(error) = failed {
        function.callable = false;
        function.reason = Some(format!("has types whose JSON Schema is too much to check: {}", error.detail));
        function.schema = Schemas::default();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn function(name: &str) -> Function {
        let schema = Schemas { input: Some(json!({ "type": "object" })), output: Some(json!({ "type": "null" })) };
        Function { name: name.into(), description: "of its own".into(), schema, callable: true, reason: None }
    }

    #[test]
    fn a_manifest_describes_an_only_function_and_leaves_the_rest_as_it_is() {
        let output = json!({ "type": "integer" });
        let manifest = Schemas { input: None, output: Some(output.clone()) };
        let (functions, skill) = described(vec![function("a")], manifest.clone(), "of the manifest").unwrap();
        assert_eq!(functions[0].description, "of the manifest");
        assert_eq!(skill, Schemas { input: function("a").schema.input, output: Some(output) });
        assert_eq!(skill, functions[0].schema);
        let refused = described(vec![function("a"), function("b")], manifest, "").unwrap_err();
        assert_eq!((refused.code, refused.fields[0].pointer.as_str()), (Code::InvalidManifest, "/schema"));
        let (functions, skill) = described(vec![function("a"), function("b")], Schemas::default(), "x").unwrap();
        assert_eq!((skill, functions[1].description.as_str()), (Schemas::default(), "of its own"));
    }

    #[test]
    fn a_function_whose_schema_is_too_much_cannot_be_called() {
        let deep = (0..100).fold(json!({}), |inner, _| json!({ "items": inner }));
        let bad = Function { schema: Schemas { input: Some(deep), output: None }, ..function("bad") };
        let (functions, _) = described(vec![bad.clone(), function("good")], Schemas::default(), "").unwrap();
        assert_eq!((functions[0].callable, functions[1].callable), (false, true));
        assert!(functions[0].reason.is_some());
        assert_eq!(described(vec![bad], Schemas::default(), "").unwrap_err().code, Code::InvalidComponent);
    }
}
