//! Sealing a value so that only the key opens it, and only in the row that it was sealed for.
//!
//! AES-256-GCM-SIV (RFC 8452) with a random nonce: also one that came twice would tell no more than
//! that the same thing was sealed twice.

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, Nonce, RandomizedNonceKey};
use zeroize::Zeroizing;

use crate::model::{Error, SecretValue};
use crate::store::SecretRecord;

use super::key::SealingKey;

/// Seals `value` for all else that stands in `record`.
///
/// # Errors
///
/// `internal` if the machine has no random numbers.
pub(super) fn seal(key: &SealingKey, record: &mut SecretRecord, value: &SecretValue) -> Result<(), Error> {
    let mut text = Zeroizing::new(Vec::with_capacity(value.reveal().len() + AES_256_GCM_SIV.tag_len()));
    text.extend_from_slice(value.reveal().as_bytes());
    record.key_id = key.id();
    let context = Aad::from(context(record));
    let nonce = cipher(key)?.seal_in_place_append_tag(context, &mut *text).map_err(|_| failed("sealed"))?;
    record.nonce = *nonce.as_ref();
    record.sealed = text.to_vec();
    Ok(())
}

/// Opens what was sealed for this record.
///
/// # Errors
///
/// `internal` if anything in the record is not as it was.
pub(super) fn open(key: &SealingKey, record: &SecretRecord) -> Result<SecretValue, Error> {
    let mut sealed = Zeroizing::new(record.sealed.clone());
    let nonce = Nonce::assume_unique_for_key(record.nonce);
    let opened = cipher(key)?.open_in_place(nonce, Aad::from(context(record)), &mut sealed);
    let opened = opened.map_err(|_| failed("opened"))?;
    let text = std::str::from_utf8(opened).map_err(|_| failed("read"))?;
    SecretValue::new(Zeroizing::new(text.to_owned())).map_err(|_| failed("read"))
}

pub(super) fn cipher(key: &SealingKey) -> Result<RandomizedNonceKey, Error> {
    RandomizedNonceKey::new(&AES_256_GCM_SIV, key.bytes()).map_err(|_| failed("used"))
}

fn failed(what: &str) -> Error {
    Error::internal(format!("a secret could not be {what}; its row or the key is damaged"))
}

/// All that a value is bound to, written so that no two records look alike.
fn context(record: &SecretRecord) -> Vec<u8> {
    let SecretRecord { owner, name, version, origin, header, prefix, shared, .. } = record;
    let mut context = Vec::new();
    for part in ["skillvisor secret 1", owner.as_str(), name.as_str(), origin, header, prefix] {
        context.extend_from_slice(&(part.len() as u64).to_be_bytes());
        context.extend_from_slice(part.as_bytes());
    }
    context.extend_from_slice(&version.to_be_bytes());
    context.push(u8::from(*shared));
    context
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Code;

    const VALUE: &str = "canary-5f2c9a";

    fn sealed(key: &SealingKey) -> SecretRecord {
        let mut record = SecretRecord {
            owner: "team".parse().unwrap(),
            name: "TOKEN".parse().unwrap(),
            version: 3,
            origin: "https://api.example".into(),
            header: "authorization".into(),
            prefix: "Bearer ".into(),
            shared: false,
            key_id: [0; 16],
            nonce: [0; 12],
            sealed: Vec::new(),
            created_at: 1,
            updated_at: 1,
        };
        seal(key, &mut record, &SecretValue::new(Zeroizing::new(VALUE.into())).unwrap()).unwrap();
        record
    }

    fn key(digit: &str) -> SealingKey {
        SealingKey::parse(&digit.repeat(64)).unwrap()
    }

    #[test]
    fn what_is_sealed_opens_with_its_key_and_is_nowhere_in_the_record() {
        let (one, other) = (sealed(&key("1")), sealed(&key("1")));
        assert_eq!(open(&key("1"), &one).unwrap().reveal(), VALUE);
        assert!(one.nonce != other.nonce && one.sealed != other.sealed);
        assert!(!one.sealed.windows(6).any(|part| VALUE.as_bytes().windows(6).any(|plain| plain == part)));
        assert_eq!(one.sealed.len(), VALUE.len() + 16);
        assert_eq!(open(&key("2"), &one).unwrap_err().code, Code::Internal);
    }

    #[test]
    fn a_row_that_was_changed_in_any_part_does_not_open() {
        type Change = fn(&mut SecretRecord);
        let changes: [(&str, Change); 11] = [
            ("owner", |record| record.owner = "other".parse().unwrap()),
            ("name", |record| record.name = "OTHER".parse().unwrap()),
            ("version", |record| record.version = 4),
            ("origin", |record| record.origin = "https://evil.example".into()),
            ("header", |record| record.header = "x-log-me".into()),
            ("prefix", |record| record.prefix = String::new()),
            ("prefix and header", |record| (record.header, record.prefix) = ("authorizationB".into(), "earer ".into())),
            ("shared", |record| record.shared = true),
            ("nonce", |record| record.nonce[0] ^= 1),
            ("sealed", |record| record.sealed[0] ^= 1),
            ("sealed, cut", |record| record.sealed.truncate(10)),
        ];
        for (what, change) in changes {
            let mut record = sealed(&key("1"));
            change(&mut record);
            assert!(open(&key("1"), &record).is_err(), "{what}");
        }
    }
}
