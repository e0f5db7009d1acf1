//! The plain values of a manifest: `grants.config` and `grants.env`; and what of the grants never
//! changes in a version.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::model::{Code, Error, Grants, pointer_segment};

/// Most bytes of all names and values of one of them.
const MAX_BYTES: usize = 64 << 10;
/// Most values in one of them.
const MAX_VALUES: usize = 256;

/// Refuses what cannot be handed to a guest, or is more than settings are.
pub(super) fn require_sane(grants: &Grants) -> Result<(), Error> {
    require_small("/grants/config", &grants.config)?;
    require_small("/grants/env", &grants.env)?;
    let wrong =
        |(name, value): &(&String, &String)| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0');
    match grants.env.iter().find(wrong) {
        Some((name, _)) => {
            let detail = "a variable's name has at least one character and no `=`; neither it nor its value has a NUL";
            Err(Error::at(Code::InvalidManifest, format!("/grants/env/{}", pointer_segment(name)), detail))
        }
        None => Ok(()),
    }
}

fn require_small(pointer: &str, values: &BTreeMap<String, String>) -> Result<(), Error> {
    let bytes: usize = values.iter().map(|(name, value)| name.len() + value.len()).sum();
    if values.len() <= MAX_VALUES && bytes <= MAX_BYTES {
        return Ok(());
    }
    let detail = format!("has more than {MAX_VALUES} values or {MAX_BYTES} bytes; keep data in the key-value store");
    Err(Error::at(Code::InvalidManifest, pointer, detail))
}

/// Puts what is granted among what may never change in a version. Without it, a manifest keeps the digest
/// that it always had.
pub(super) fn into_digest(grants: &Grants, fixed: &mut Value) {
    for (name, values) in [("config", &grants.config), ("env", &grants.env)] {
        if !values.is_empty() {
            fixed[name] = json!(values);
        }
    }
    if !grants.skills.is_empty() {
        fixed["skills"] = json!(grants.skills);
    }
    if grants.kv {
        fixed["kv"] = json!(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(grants: Value) -> Option<String> {
        let grants: Grants = serde_json::from_value(grants).unwrap();
        require_sane(&grants).err().map(|error| error.fields[0].pointer.clone())
    }

    #[test]
    fn values_that_no_guest_could_be_given_are_refused_at_their_place() {
        assert_eq!(place(json!({ "config": { "a=b": "\0" }, "env": { "A": "b=c" } })), None);
        for (grants, wrong) in [
            (json!({ "env": { "": "x" } }), "/grants/env/"),
            (json!({ "env": { "a/b=": "x" } }), "/grants/env/a~1b="),
            (json!({ "env": { "A": "\0" } }), "/grants/env/A"),
            (json!({ "config": { "A": "x".repeat(MAX_BYTES) } }), "/grants/config"),
        ] {
            assert_eq!(place(grants).as_deref(), Some(wrong));
        }
    }
}
