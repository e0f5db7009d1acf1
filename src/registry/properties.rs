//! What holds for every manifest: no panic, a refusal names the place, and a good one says what
//! was meant.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::model::{Code, Limits, MAX_DETAIL};

use super::manifest::Manifest;

/// Every field of a manifest.
const FIELDS: &[&str] = &[
    "name",
    "version",
    "description",
    "schema",
    "handler",
    "handlerCode",
    "enabled",
    "mode",
    "tags",
    "sourceProvider",
    "grants",
    "limits",
    "retry",
    "idempotent",
    "reuse",
    "public",
    "owner",
    "apiKeyId",
];

/// A value that some field may take, or any other.
fn value() -> impl Strategy<Value = Value> {
    let words = vec![
        json!("a-name"),
        json!("1.2.3"),
        json!("1.2"),
        json!("wasm"),
        json!("on"),
        json!("auto"),
        json!(["x"]),
        json!({}),
        json!({ "type": "object" }),
        json!({ "input": {}, "output": { "type": 7 } }),
        json!({ "fuel": 0 }),
        json!({ "timeoutMs": 5, "memoryMb": 1 }),
        json!({ "network": ["public"] }),
        json!({ "kv": true }),
        json!({ "maxRetries": 0 }),
        json!({ "maxRetries": 4 }),
        json!(true),
        json!(false),
        json!(null),
        json!(-1),
        json!("x".repeat(3000)),
        json!(format!("sha256:{}", "0".repeat(64))),
        json!({ "n": "integer" }),
    ];
    prop_oneof![4 => prop::sample::select(words), 1 => any::<String>().prop_map(Value::from), 1 => any::<f64>().prop_map(|n| json!(n))]
}

fn members() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::hash_map(prop::sample::select(FIELDS), value(), 0..8)
        .prop_map(|members| members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        if let Err(error) = Manifest::parse(&text) {
            prop_assert_eq!(error.code, Code::Malformed);
            prop_assert!(error.detail.len() <= MAX_DETAIL);
        }
    }

    #[test]
    fn whatever_stands_in_the_fields_the_refusal_names_one_of_them(members in members()) {
        let text = Value::Object(members).to_string();
        let error = match Manifest::parse(&text) {
            Ok(manifest) => match (manifest.component(), manifest.check_alone().and_then(|alone| manifest.check(alone, Limits::HOST_MAXIMUM))) {
                (Ok(_), Ok(_)) => return Ok(()),
                (Err(error), _) | (_, Err(error)) => error,
            },
            Err(error) => {
                prop_assert_eq!(error.code, Code::Malformed);
                return Ok(());
            }
        };
        let codes = [Code::InvalidManifest, Code::NotSupported, Code::ReservedName];
        prop_assert!(codes.contains(&error.code), "{error:?}");
        prop_assert!(!error.fields.is_empty(), "{error:?}");
        for field in &error.fields {
            let first = field.pointer.trim_start_matches('/').split('/').next().unwrap();
            prop_assert!(FIELDS.contains(&first), "{error:?}");
        }
    }

    #[test]
    fn a_field_that_does_not_exist_is_named(stranger in "zz[a-z]{1,12}", mut members in members()) {
        members.clear();
        members.insert(stranger.clone(), json!(1));
        let error = Manifest::parse(&Value::Object(members).to_string()).unwrap_err();
        prop_assert!(error.detail.contains(&stranger), "{error:?}");
    }

    #[test]
    fn a_good_manifest_says_what_was_meant(
        name in "[b-z0-9]{1,9}(-[b-z0-9]{1,9}){0,2}", version in any::<(u32, u32, u32)>(),
        description in "\\PC{0,200}", timeout in 1_u64..1_000_000_000,
    ) {
        let version = format!("{}.{}.{}", version.0, version.1, version.2);
        let text = json!({ "name": name, "version": version, "description": description, "limits": { "timeoutMs": timeout } });
        let manifest = Manifest::parse(&text.to_string()).unwrap();
        let checked = manifest.check(manifest.check_alone().unwrap(), Limits::HOST_MAXIMUM).unwrap();
        prop_assert_eq!((checked.name.as_str(), checked.version.to_string(), checked.description), (name.as_str(), version, description));
        prop_assert_eq!(checked.limits.timeout_ms, timeout.min(Limits::HOST_MAXIMUM.timeout_ms));
    }
}
