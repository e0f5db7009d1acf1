//! Unions that a member tells apart.
//!
//! `anyOf` and `oneOf` of objects that each fix the same required member to texts of their own,
//! as `{"kind": {"const": "image"}}`, apply one branch and not all of them: the validator looks
//! at the member first. Without knowing that, a tree of such objects would seem to branch at each
//! level. What is recognised here is less than what the validator recognises.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::graph::NodeId;

/// The texts that a member may have.
pub(super) type Texts = Vec<Box<str>>;

/// How the branches of a union are told apart.
#[derive(Debug)]
pub(super) struct Dispatch {
    /// The member that tells.
    pub(super) member: Box<str>,
    /// The texts that it may have in each branch; none for a branch that takes no object.
    pub(super) branches: HashMap<NodeId, Texts>,
}

impl Dispatch {
    /// Whether the validator passes over `branch` for an object.
    pub(super) fn passes_over(&self, branch: NodeId, object: &Map<String, Value>) -> bool {
        let texts = self.branches.get(&branch);
        let text = object.get(&*self.member).and_then(Value::as_str);
        // A member that is no text may be compared with numbers: that is not looked into.
        let is_told = !object.get(&*self.member).is_some_and(Value::is_number);
        is_told && texts.is_some_and(|texts| !texts.iter().any(|own| Some(&**own) == text))
    }
}

/// The member that tells `branches` apart, and its texts in each. `follow` gives what a schema
/// stands for: the target of its `$ref`, or itself; none if that is not certain.
pub(super) fn telling_member<'s>(
    branches: &'s [Value],
    follow: &dyn Fn(&'s Value) -> Option<&'s Value>,
) -> Option<(Box<str>, Vec<Texts>)> {
    // The validator does not look for it in fewer.
    if branches.len() < 3 {
        return None;
    }
    let branches: Vec<Branch<'s>> =
        branches.iter().map(|branch| Branch::of(follow(branch)?, follow)).collect::<Option<_>>()?;
    let (mut required, mut fixed) = (HashMap::<&str, usize>::new(), HashMap::<&str, usize>::new());
    for branch in &branches {
        branch.required.iter().for_each(|name| *required.entry(name).or_default() += 1);
        branch.fixed.keys().for_each(|name| *fixed.entry(name).or_default() += 1);
    }
    // With several, the validator's choice depends on more than is looked at here.
    fixed.retain(|name, count| *count >= 2 && required.get(name).is_some_and(|count| *count >= 2));
    let [member] = Vec::from_iter(fixed.into_keys())[..] else { return None };
    let texts = branches.iter().map(|branch| branch.texts(member)).collect::<Option<_>>()?;
    Some((member.into(), texts))
}

#[derive(Default)]
struct Branch<'s> {
    takes_objects: bool,
    required: Vec<&'s str>,
    /// Members that have values of their own; none if these are not all texts.
    fixed: HashMap<&'s str, Option<Vec<&'s str>>>,
}

impl<'s> Branch<'s> {
    /// None if it is not certain what it fixes.
    fn of(schema: &'s Value, follow: &dyn Fn(&'s Value) -> Option<&'s Value>) -> Option<Self> {
        let members = schema.as_object()?;
        if members.get("type").and_then(Value::as_str).is_some_and(|word| word != "object") {
            return Some(Self::default());
        }
        if members.contains_key("allOf") {
            return None;
        }
        let required = members.get("required")?.as_array()?.iter().filter_map(Value::as_str).collect();
        let mut fixed = HashMap::new();
        for (name, property) in members.get("properties")?.as_object()? {
            let property = follow(property);
            let constant = property.and_then(|property| property.get("const")).map(std::slice::from_ref);
            let list = property.and_then(|property| property.get("enum")?.as_array());
            if let Some(values) = constant.or(list.map(Vec::as_slice)) {
                fixed.insert(name.as_str(), values.iter().map(Value::as_str).collect());
            } else if property.is_none() {
                fixed.insert(name.as_str(), None);
            }
        }
        Some(Self { takes_objects: true, required, fixed })
    }

    /// The texts of `member`, if it is required and fixed to texts, or never meets an object.
    fn texts(&self, member: &str) -> Option<Texts> {
        if !self.takes_objects {
            return Some(Vec::new());
        }
        let texts = self.fixed.get(member)?.as_ref().filter(|texts| !texts.is_empty())?;
        self.required.contains(&member).then(|| texts.iter().map(|text| (*text).into()).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(fixed: Value) -> Value {
        json!({ "type": "object", "properties": { "kind": fixed, "x": {} }, "required": ["kind"] })
    }

    fn told(branches: &[Value]) -> Option<(Box<str>, Vec<Texts>)> {
        telling_member(branches, &|schema| schema.get("$ref").is_none().then_some(schema))
    }

    #[test]
    fn a_member_that_each_branch_fixes_tells_them_apart() {
        let (member, texts) =
            told(&[kind(json!({ "const": "a" })), json!({ "type": "null" }), kind(json!({ "enum": ["b", "c"] }))])
                .unwrap();
        assert_eq!(&*member, "kind");
        assert_eq!(texts, [vec!["a".into()], vec![], vec!["b".into(), "c".into()]]);
        let branches = HashMap::from_iter(texts.into_iter().enumerate());
        let dispatch = Dispatch { member, branches };
        let passed = |object: Value| {
            (0..3).map(|branch| dispatch.passes_over(branch, object.as_object().unwrap())).collect::<Vec<_>>()
        };
        assert_eq!(passed(json!({ "kind": "c" })), [true, true, false]);
        assert_eq!(passed(json!({})), [true, true, true]);
        assert_eq!(passed(json!({ "kind": 1 })), [false, false, false]);
        assert!(!dispatch.passes_over(7, &Map::new()), "no branch of this union");
    }

    #[test]
    fn what_is_not_certain_tells_nothing_apart() {
        let a = kind(json!({ "const": "a" }));
        let b = kind(json!({ "const": "b" }));
        for third in [
            json!(true),
            json!({}),
            json!({ "properties": { "kind": { "const": "c" } } }),
            kind(json!({ "const": 1 })),
            kind(json!({ "not": { "const": "c" } })),
            kind(json!({ "$ref": "#/a" })),
            kind(json!({ "type": "string" })),
            kind(json!({ "enum": [] })),
            json!({ "$ref": "#/a" }),
            json!({ "allOf": [kind(json!({ "const": "c" }))] }),
        ] {
            assert!(told(&[a.clone(), b.clone(), third.clone()]).is_none(), "{third}");
        }
        assert!(told(&[a.clone(), b.clone()]).is_none(), "too few");
        let two = |kind, other| json!({ "properties": { "kind": { "const": kind }, "other": { "const": other } }, "required": ["kind", "other"] });
        assert!(told(&[two("a", "x"), two("b", "x"), two("c", "x")]).is_none(), "two members tell");
    }
}
