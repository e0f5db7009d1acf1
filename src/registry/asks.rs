//! What a component asks for by what it imports, and what its manifest does not.

use crate::model::Grants;

/// What to say of imports that are of no use without a grant which the manifest does not ask for.
/// Files are none of them: nearly every component imports those.
pub(super) fn without_grant(imports: &[String], grants: &Grants) -> Vec<String> {
    let all = [
        ("wasi:http", &["wasi:http/outgoing-handler", "wasi:http/client"][..], "network", !grants.network.is_empty()),
        ("wasi:keyvalue", &["wasi:keyvalue/"], "kv", grants.kv),
        ("skillvisor:skill/skills", &["skillvisor:skill/skills"], "skills", !grants.skills.is_empty()),
    ];
    let missing = all.into_iter().filter(|(_, names, _, granted)| {
        !granted && imports.iter().any(|import| names.iter().any(|name| import.starts_with(name)))
    });
    let said =
        |(what, _, grant, _)| format!("it imports {what} without grants.{grant}: what it asks for there is denied");
    missing.map(said).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_import_without_its_grant_is_told_once() {
        let imports = ["wasi:http/outgoing-handler@0.2.3", "wasi:keyvalue/store@0.2.0", "wasi:keyvalue/atomics@0.2.0"];
        let imports = imports.map(str::to_owned);
        let told = |grants: &str| without_grant(&imports, &serde_json::from_str(grants).unwrap()).len();
        assert_eq!((told("{}"), told(r#"{"kv":true}"#), told(r#"{"kv":true,"network":["public"]}"#)), (2, 1, 0));
        assert_eq!(without_grant(&["wasi:filesystem/types@0.2.3".to_owned()], &Grants::default()), [""; 0]);
    }
}
