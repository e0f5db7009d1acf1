//! What holds for everything that is parsed here: nothing panics, a refusal is short and
//! readable whatever was given, and what is written reads back as the same.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::*;

/// Any text, and text that is nearly right for some parser.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[a-z0-9-]{0,70}",
        "[A-Za-z0-9._:@#^~<>=*, -]{0,60}",
        "key_[0-9a-fA-F]{30,34}",
        "(sha256:)?[0-9a-fA-F]{62,66}",
        "[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
        "(GET|POST,PUT|get|)? ?https?://(\\*\\.)?[a-z0-9.\\[\\]:*-]{0,30}(:[0-9]{0,6})?(/[ -~é]{0,10})?",
        (1_usize..100_000).prop_map(|length| "a".repeat(length)),
    ]
}

fn is_readable(error: &Error) {
    assert!(error.detail.len() <= MAX_DETAIL, "{} bytes: {:.100}", error.detail.len(), error.detail);
    assert!(!error.detail.chars().any(steers), "{:?}", error.detail);
}

/// Parses, and parses again what that prints.
fn reads_back<T>(text: &str)
where
    T: FromStr<Err = Error> + Display + PartialEq + Debug + Serialize + DeserializeOwned,
{
    match text.parse::<T>() {
        Ok(value) => {
            assert_eq!(value.to_string().parse::<T>().unwrap(), value);
            let json = serde_json::to_string(&value).unwrap();
            assert_eq!(serde_json::from_str::<T>(&json).unwrap(), value);
        }
        Err(error) => is_readable(&error),
    }
}

/// Writes a value as JSON and reads it again.
fn survives_json<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let json = serde_json::to_string(value).unwrap();
    assert_eq!(serde_json::from_str::<T>(&json).unwrap(), *value);
}

/// Reads an object with one member that does not belong there; the refusal names it.
fn names_a_stranger<T: DeserializeOwned>(stranger: &str) {
    let error = serde_json::from_value::<T>(json!({ stranger: 1 })).err().unwrap().to_string();
    assert!(error.contains(stranger), "{error}");
}

/// Any JSON value that a strict reader takes.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 40, 6, |inner| {
        let members = prop::collection::vec((any::<String>(), inner.clone()), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(Value::from),
            members.prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn patch() -> impl Strategy<Value = LimitsPatch> {
    let fuel = prop_oneof![any::<u64>().prop_map(Fuel::Metered), Just(Fuel::Unlimited)];
    (any::<[Option<u64>; 6]>(), prop::option::of(fuel)).prop_map(|(n, fuel)| LimitsPatch {
        timeout_ms: n[0],
        attempt_timeout_ms: n[1],
        memory_mb: n[2],
        fuel,
        cpu_percent: n[3],
        output_bytes: n[4],
        args_bytes: n[5],
    })
}

fn rule() -> impl Strategy<Value = NetworkRule> {
    let methods = prop::sample::select(vec!["", "GET ", "GET,POST ", "PATCH "]);
    let host = prop_oneof!["(\\*\\.)?[a-z0-9]{1,8}(\\.[a-z]{1,5}){0,2}", Just("[::1]".to_owned())];
    let port = prop_oneof![Just(String::new()), (1_u16..).prop_map(|port| format!(":{port}"))];
    (methods, prop::sample::select(vec!["http", "https"]), host, port, "(/[a-z0-9./-]{0,12}\\*?)?")
        .prop_map(|(methods, scheme, host, port, path)| format!("{methods}{scheme}://{host}{port}{path}"))
        .prop_map(|text| text.parse().unwrap_or_else(|error| panic!("{text}: {error}")))
}

proptest! {
    #[test]
    fn names_ids_and_rules_read_what_they_print(text in text()) {
        reads_back::<SkillName>(&text);
        reads_back::<OwnerId>(&text);
        reads_back::<Tag>(&text);
        reads_back::<KeyId>(&text);
        reads_back::<SkillId>(&text);
        reads_back::<ExecutionId>(&text);
        reads_back::<Digest>(&text);
        reads_back::<NetworkRule>(&text);
        reads_back::<Mode>(&text);
        if let Ok(status) = text.parse::<Status>() {
            prop_assert_eq!(status.as_str(), text);
        }
    }

    #[test]
    fn references_and_version_selectors_take_any_text(text in text()) {
        for error in [text.parse::<SkillRef>().err(), text.parse::<VersionSelector>().err()].iter().flatten() {
            is_readable(error);
            prop_assert!(matches!(error.code, Code::NotFound | Code::Malformed), "{error:?}");
        }
    }

    #[test]
    fn a_reference_is_taken_apart_as_it_was_put_together(
        name in "[a-z0-9]{1,5}(-[a-z0-9]{1,5}){0,3}", version in "[0-9]{1,6}\\.[0-9]{1,6}\\.[0-9]{1,6}(-[a-z]{1,4}\\.[1-9])?",
        function in prop::option::of("[a-z][a-z-]{0,10}"),
    ) {
        let suffix = function.as_ref().map(|function| format!("#{function}")).unwrap_or_default();
        let known = SkillRef::Name {
            name: name.parse().unwrap(),
            version: VersionSelector::Exact(semver::Version::parse(&version).unwrap_or_else(|_| semver::Version::new(0, 0, 0))),
            function,
        };
        prop_assume!(semver::Version::parse(&version).is_ok());
        prop_assert_eq!(format!("{name}@{version}{suffix}").parse::<SkillRef>().unwrap(), known);
    }

    #[test]
    fn what_a_rule_lets_through_is_an_address(rule in rule(), text in text()) {
        survives_json(&rule);
        if let Ok(rule) = text.parse::<NetworkRule>() {
            let text = rule.to_string();
            prop_assert!(text.is_ascii() && !text.contains(|c: char| c.is_control()), "{text:?}");
        }
    }

    #[test]
    fn strict_json_keeps_text_and_value(value in value()) {
        let text = value.to_string();
        let strict = StrictJson::parse(&text).unwrap();
        prop_assert_eq!((strict.text(), strict.to_value()), (text.as_str(), value));
    }

    #[test]
    fn strict_json_takes_any_text_and_no_key_twice(text in any::<String>(), key in any::<String>(), at in value()) {
        if let Err(error) = StrictJson::parse(&text) {
            is_readable(&error);
            prop_assert_eq!(error.code, Code::Malformed);
        }
        let key = Value::from(key);
        let twice = format!("[0,{{{key}:{at},{key}:{at}}}]");
        prop_assert_eq!(StrictJson::parse(&twice).unwrap_err().code, Code::Malformed);
    }

    #[test]
    fn limits_and_ceilings_survive_json_and_stay_under_the_most(patch in patch(), network in prop::collection::vec(rule(), 0..3)) {
        survives_json(&patch);
        let limits = patch.over(Limits::DEFAULT).intersect(Limits::HOST_MAXIMUM);
        survives_json(&limits);
        prop_assert_eq!(limits.intersect(Limits::HOST_MAXIMUM), limits);
        let ceilings = Ceilings { network, limits: patch, ..Ceilings::default() };
        survives_json(&ceilings);
        prop_assert_eq!(ceilings.limits(), limits);
    }

    #[test]
    fn a_member_that_does_not_belong_is_named(stranger in "zz[a-z]{1,12}") {
        names_a_stranger::<LimitsPatch>(&stranger);
        names_a_stranger::<Ceilings>(&stranger);
        names_a_stranger::<Grants>(&stranger);
        names_a_stranger::<Rates>(&stranger);
        names_a_stranger::<Budgets>(&stranger);
        names_a_stranger::<StorageCeilings>(&stranger);
    }

    #[test]
    fn any_json_is_read_as_limits_ceilings_and_grants_without_a_panic(value in value()) {
        let _ = serde_json::from_value::<LimitsPatch>(value.clone());
        let _ = serde_json::from_value::<Ceilings>(value.clone());
        let _ = serde_json::from_value::<Scope>(value.clone());
        let _ = serde_json::from_value::<Grants>(value);
    }

    #[test]
    fn the_copy_for_the_audit_is_text_of_bounded_length(text in any::<String>(), value in value(), most in 0_usize..200) {
        for text in [text, value.to_string(), json!({ "apiToken": value }).to_string()] {
            prop_assert!(redacted_copy(&text, most).len() <= most);
            prop_assert!(plain(&text, most).len() <= most);
        }
    }
}
