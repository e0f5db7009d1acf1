//! For any type: its values survive the way there and back, and its schema tells which they are.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use wasmtime::component::Val;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::model::{Code, Limits, RunError};
use crate::sandbox::shape::{Case, Field, WitType};

use super::super::compile::schema_of;
use super::{lift, lower};

fn primitive() -> impl Strategy<Value = WitType> {
    let all = [
        WitType::Bool,
        WitType::S8,
        WitType::U8,
        WitType::S16,
        WitType::U16,
        WitType::S32,
        WitType::U32,
        WitType::S64,
        WitType::U64,
        WitType::F32,
        WitType::F64,
        WitType::Char,
        WitType::String,
        WitType::Bytes,
        WitType::Enum(names(3)),
        WitType::Flags(names(5)),
    ];
    proptest::sample::select(all.to_vec())
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("name-{at}")).collect()
}

fn wit_type() -> impl Strategy<Value = WitType> {
    primitive().prop_recursive(4, 24, 4, |inner| {
        let optional = || proptest::option::of(inner.clone());
        let boxed = |ty: Option<WitType>| ty.map(Box::new);
        prop_oneof![
            inner.clone().prop_map(|ty| WitType::List(Box::new(ty))),
            (inner.clone(), 1..4_u32).prop_map(|(ty, length)| WitType::Array(Box::new(ty), length)),
            vec(inner.clone(), 1..4).prop_map(WitType::Tuple),
            vec(inner.clone(), 1..4).prop_map(|types| WitType::Record(
                types.into_iter().zip(names(4)).map(|(ty, name)| Field { name, ty }).collect()
            )),
            vec(optional(), 1..4).prop_map(|types| WitType::Variant(
                types.into_iter().zip(names(4)).map(|(ty, name)| Case { name, ty }).collect()
            )),
            inner.clone().prop_map(|ty| WitType::Option(Box::new(ty))),
            (optional(), optional()).prop_map(move |(ok, err)| WitType::Result { ok: boxed(ok), err: boxed(err) }),
        ]
    })
}

fn float(value: f64) -> Value {
    match value {
        _ if value.is_nan() => json!("NaN"),
        f64::INFINITY => json!("Infinity"),
        f64::NEG_INFINITY => json!("-Infinity"),
        _ => json!(value),
    }
}

/// The JSON of any value of the type.
fn value(ty: &WitType) -> BoxedStrategy<Value> {
    match ty {
        WitType::Bool => any::<bool>().prop_map(Value::from).boxed(),
        WitType::S8 => any::<i8>().prop_map(Value::from).boxed(),
        WitType::U8 => any::<u8>().prop_map(Value::from).boxed(),
        WitType::S16 => any::<i16>().prop_map(Value::from).boxed(),
        WitType::U16 => any::<u16>().prop_map(Value::from).boxed(),
        WitType::S32 => any::<i32>().prop_map(Value::from).boxed(),
        WitType::U32 => any::<u32>().prop_map(Value::from).boxed(),
        WitType::S64 => prop_oneof![Just(i64::MIN), Just(i64::MAX), any::<i64>()].prop_map(Value::from).boxed(),
        WitType::U64 => prop_oneof![Just(u64::MAX), any::<u64>()].prop_map(Value::from).boxed(),
        WitType::F32 => proptest::num::f32::ANY.prop_map(|single| float(single.into())).boxed(),
        WitType::F64 => proptest::num::f64::ANY.prop_map(float).boxed(),
        WitType::Char => any::<char>().prop_map(|c| json!(c)).boxed(),
        WitType::String => any::<String>().prop_map(Value::from).boxed(),
        WitType::Bytes => vec(any::<u8>(), 0..9).prop_map(|bytes| json!(STANDARD.encode(bytes))).boxed(),
        WitType::Enum(names) => proptest::sample::select(names.clone()).prop_map(Value::from).boxed(),
        WitType::Flags(names) => {
            proptest::sample::subsequence(names.clone(), 0..=names.len()).prop_map(Value::from).boxed()
        }
        WitType::List(element) => vec(value(element), 0..4).prop_map(Value::from).boxed(),
        WitType::Array(element, length) => vec(value(element), *length as usize).prop_map(Value::from).boxed(),
        WitType::Tuple(types) => types.iter().map(value).collect::<Vec<_>>().prop_map(Value::from).boxed(),
        WitType::Record(fields) => {
            let names: Vec<_> = fields.iter().map(|field| field.name.clone()).collect();
            let values = fields.iter().map(|field| value(&field.ty)).collect::<Vec<_>>();
            values.prop_map(move |values| names.iter().cloned().zip(values).collect()).boxed()
        }
        WitType::Variant(cases) => proptest::sample::select(cases.clone()).prop_flat_map(|case| tagged(&case)).boxed(),
        WitType::Option(inner) => {
            let is_wrapped = inner.admits_null();
            let some = value(inner).prop_map(move |value| if is_wrapped { json!({ "some": value }) } else { value });
            prop_oneof![Just(Value::Null), some].boxed()
        }
        WitType::Result { ok, err } => {
            let side = |name: &'static str, ty: &Option<Box<WitType>>| {
                payload(ty.as_deref()).prop_map(move |value| json!({ name: value }))
            };
            prop_oneof![side("ok", ok), side("err", err)].boxed()
        }
    }
}

fn payload(ty: Option<&WitType>) -> BoxedStrategy<Value> {
    ty.map_or_else(|| Just(Value::Null).boxed(), value)
}

/// A case with its payload, the tag first or last.
fn tagged(case: &Case) -> BoxedStrategy<Value> {
    let name = case.name.clone();
    match &case.ty {
        None => Just(json!({ "tag": name })).boxed(),
        Some(ty) => (value(ty), any::<bool>())
            .prop_map(move |(value, is_first)| match is_first {
                true => json!({ "tag": name, "val": value }),
                false => json!({ "val": value, "tag": name }),
            })
            .boxed(),
    }
}

fn read(ty: &WitType, value: &Value) -> Result<Val, RunError> {
    let params = [Field { name: "value".into(), ty: ty.clone() }];
    let text = json!({ "value": value }).to_string();
    lower::arguments(&text, &params, &Limits::DEFAULT).map(|mut vals| vals.remove(0))
}

fn write(ty: &WitType, val: &Val) -> Value {
    serde_json::from_str(&lift::payload(Some(val), Some(ty), 1 << 20).unwrap()).unwrap()
}

proptest! {
    #[test]
    fn a_float_is_exact_to_the_last_bit(double in proptest::num::f64::ANY, single in proptest::num::f32::ANY) {
        for (ty, val) in [(WitType::F64, Val::Float64(double)), (WitType::F32, Val::Float32(single))] {
            let text = lift::payload(Some(&val), Some(&ty), 100).unwrap();
            let params = [Field { name: "value".into(), ty }];
            let back = lower::arguments(&format!("{{\"value\":{text}}}"), &params, &Limits::DEFAULT).unwrap();
            prop_assert_eq!(&back[0], &val, "{}", text);
        }
    }

    #[test]
    fn a_value_comes_back_as_it_was_and_matches_its_schema(
        (ty, value) in wit_type().prop_flat_map(|ty| { let values = value(&ty); (Just(ty), values) })
    ) {
        let schema = jsonschema::validator_for(&schema_of(&ty)).unwrap();
        prop_assert!(schema.is_valid(&value), "{value} against {}", schema_of(&ty));
        let val = read(&ty, &value).map_err(|error| TestCaseError::fail(format!("{error:?}")))?;
        let back = write(&ty, &val);
        prop_assert!(schema.is_valid(&back), "{back} against {}", schema_of(&ty));
        prop_assert_eq!(read(&ty, &back).unwrap(), val);
    }

    #[test]
    fn what_does_not_match_the_schema_is_no_value(
        ty in wit_type(), value in wit_type().prop_flat_map(|ty| value(&ty))
    ) {
        let schema = jsonschema::validator_for(&schema_of(&ty)).unwrap();
        match read(&ty, &value) {
            Ok(_) => prop_assert!(schema.is_valid(&value), "{value} against {}", schema_of(&ty)),
            Err(error) => {
                prop_assert_eq!(error.code, Code::InvalidArgs);
                let pointer = error.detail.unwrap()["errors"][0]["pointer"].as_str().unwrap().to_owned();
                prop_assert!(pointer.starts_with("/value"), "{pointer}");
            }
        }
    }
}

#[test]
fn an_error_leads_to_the_place_and_does_not_quote_the_value() {
    let point = WitType::Record(vec![Field { name: "x".into(), ty: WitType::S8 }]);
    let ty = WitType::List(Box::new(WitType::Result { ok: Some(Box::new(point)), err: None }));
    for (value, pointer) in [
        (json!("secret, expected"), "/value"),
        (json!([{ "ok": { "x": 1 } }, { "ok": { "x": "secret" } }]), "/value/1/ok/x"),
        (json!([{ "ok": { "x": 300 } }]), "/value/0/ok/x"),
        (json!([{ "ok": {} }]), "/value/0/ok/x"),
        (json!([{ "ok": { "x": 1, "secret": 2 } }]), "/value/0/ok"),
        (json!([{ "err": "secret" }]), "/value/0/err"),
        (json!([{ "ok": { "x": 1 }, "err": null }]), "/value/0"),
        (json!([{}]), "/value/0"),
    ] {
        let error = read(&ty, &value).unwrap_err();
        let detail = error.detail.unwrap();
        assert_eq!(detail["errors"][0]["pointer"], pointer, "{value}");
        assert!(!format!("{} {detail}", error.message).contains("secret"), "{} {detail}", error.message);
    }
}

#[test]
fn a_megabyte_comes_back_as_it_was() {
    let point = [("x", WitType::F64), ("label", WitType::String), ("n", WitType::U64)];
    let point = point.map(|(name, ty)| Field { name: name.into(), ty });
    let params =
        [Field { name: "values".into(), ty: WitType::List(Box::new(WitType::Record(point.into_iter().collect()))) }];
    let values = (0..24_000_u32).map(|at| json!({ "x": f64::from(at) / 7.0, "label": "abc", "n": at }));
    let text = json!({ "values": values.collect::<Vec<_>>() }).to_string();
    assert!(text.len() > 1 << 20, "{}", text.len());
    let vals = lower::arguments(&text, &params, &Limits::DEFAULT).unwrap();
    let back = lift::payload(Some(&vals[0]), Some(&params[0].ty), 2 << 20).unwrap();
    assert_eq!(format!("{{\"values\":{back}}}"), text);
}

#[test]
fn values_that_take_more_memory_than_the_run_may_have_are_not_made() {
    let limits = Limits { memory_mb: 1, ..Limits::DEFAULT };
    let params = [Field { name: "value".into(), ty: WitType::Bytes }];
    let text = json!({ "value": STANDARD.encode(vec![7; 100_000]) }).to_string();
    assert_eq!(lower::arguments(&text, &params, &limits).unwrap_err().code, Code::OutOfMemory);
    assert!(lower::arguments(&text, &params, &Limits::DEFAULT).is_ok());
}

#[test]
fn no_text_grows_beyond_what_it_may() {
    let ty = WitType::List(Box::new(WitType::String));
    let val = Val::List(vec![Val::String("a\"b".into()), Val::String("c".into())]);
    let text = lift::payload(Some(&val), Some(&ty), 100).unwrap();
    assert_eq!(text, r#"["a\"b","c"]"#);
    for most in 0..text.len() {
        assert_eq!(lift::payload(Some(&val), Some(&ty), most), Err(lift::Failure::TooLarge));
    }
    assert_eq!(lift::payload(Some(&val), Some(&ty), text.len()), Ok(text));
    assert_eq!(lift::payload(Some(&val), Some(&WitType::Bool), 100), Err(lift::Failure::OtherType));
}
