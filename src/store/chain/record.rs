//! What a record says, as text, and what is hashed of it. Another version of the text is another `v`.

use aws_lc_rs::hmac;
use rusqlite::types::ValueRef;
use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::model::{Clock, ExecutionId, SkillId};

use super::Act;

/// How many columns the row of an execution has: `at_start!()` and `at_end!()`.
pub(in crate::store) const COLUMNS: usize = 32;
/// The row of an execution that ended.
pub(in crate::store) type Row<'a> = [ValueRef<'a>; COLUMNS];

/// Bytes of a hash, of a commitment and of a salt.
pub(super) const BYTES: usize = 32;
pub(super) type Hash = [u8; BYTES];

/// Commitments of an execution, in the order in which they are kept: owner, key, session, args,
/// output, details.
pub(super) const OF_EXECUTION: [&str; 6] = ["owner", "key", "session", "args", "output", "details"];
/// Those of an act.
pub(super) const OF_ACT: [&str; 4] = ["owner", "key", "target", "details"];

/// What is hashed before everything else, so that no hash means two things.
const DOMAIN: &[u8] = b"skillvisor audit record 1\n";

/// The hash of a record behind the one that has `before`.
pub(super) fn hash(before: &Hash, text: &str) -> Hash {
    Sha256::new().chain_update(DOMAIN).chain_update(before).chain_update(text).finalize().into()
}

/// The values behind a commitment. Which of two values is missing, and where one ends, is part of it.
pub(super) type Parts<'a> = Vec<Option<&'a [u8]>>;

/// Commits to values under a salt.
pub(super) struct Committing {
    key: hmac::Key,
    text: Vec<u8>,
}

impl Committing {
    pub(super) fn with(salt: &Hash) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, salt), text: Vec::with_capacity(256) }
    }

    /// The commitment of this name.
    pub(super) fn to(&mut self, name: &str, parts: &[Option<&[u8]>]) -> Hash {
        self.text.clear();
        self.text.extend_from_slice(name.as_bytes());
        self.text.push(0);
        for part in parts {
            self.text.push(u8::from(part.is_some()));
            if let Some(bytes) = part {
                self.text.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
                self.text.extend_from_slice(bytes);
            }
        }
        let mut commitment = [0; BYTES];
        commitment.copy_from_slice(hmac::sign(&self.key, &self.text).as_ref());
        commitment
    }
}

/// What an execution commits to, in the order of [`OF_EXECUTION`].
pub(super) fn of_execution<'a>(row: &Row<'a>) -> [Parts<'a>; 6] {
    let one = |at: usize| vec![bytes(row[at])];
    let details = [17, 30, 25, 26, 27, 31].map(|at| bytes(row[at]));
    [one(1), one(7), one(9), one(15), one(28), details.to_vec()]
}

/// What an act commits to, in the order of [`OF_ACT`].
pub(super) fn of_act(act: &Act) -> [Parts<'_>; 4] {
    [
        one(act.owner.as_ref().map(|owner| owner.as_str())),
        one(act.key.as_ref().map(|key| key.as_str())),
        one(act.target.as_deref()),
        one(act.details.as_deref()),
    ]
}

fn one(text: Option<&str>) -> Parts<'_> {
    vec![text.map(str::as_bytes)]
}

/// All commitments of a record under its salt.
pub(super) fn commit<const N: usize>(salt: &Hash, names: [&str; N], values: &[Parts<'_>; N]) -> [Hash; N] {
    let mut committing = Committing::with(salt);
    std::array::from_fn(|at| committing.to(names[at], &values[at]))
}

/// The text of an execution's record.
pub(super) fn execution_text(
    seq: i64,
    row: &Row<'_>,
    [owner, key, session, args, output, details]: &[Hash; 6],
) -> String {
    to_text(&ExecutionText {
        v: 1,
        seq,
        kind: "execution",
        id: ExecutionId::from_bytes(id(row[0])),
        skill: text(row[4]).unwrap_or_default(),
        skill_id: SkillId::from_bytes(id(row[3])),
        function: text(row[5]).unwrap_or_default(),
        digest: Hex(bytes(row[6]).unwrap_or_default()),
        status: text(row[2]).unwrap_or_default(),
        code: text(row[24]),
        exit_code: number(row[23]),
        door: text(row[8]).unwrap_or_default(),
        parent_id: bytes(row[10]).map(|_| ExecutionId::from_bytes(id(row[10]))),
        attempts: number(row[11]),
        created_at: number(row[12]).map(Time),
        started_at: number(row[13]).map(Time),
        finished_at: number(row[18]).map(Time),
        duration_us: number(row[19]),
        queue_us: number(row[14]),
        fuel: number(row[20]),
        memory_peak_bytes: number(row[21]),
        egress_bytes: number(row[22]),
        args_bytes: number(row[16]),
        output_bytes: number(row[29]),
        owner: Hex(owner),
        key: Hex(key),
        session: Hex(session),
        args: Hex(args),
        output: Hex(output),
        details: Hex(details),
    })
}

/// The text of an act's record.
pub(super) fn act_text(seq: i64, act: &Act, [owner, key, target, details]: &[Hash; 4]) -> String {
    to_text(&ActText {
        v: 1,
        seq,
        kind: "admin",
        at: Time(act.at),
        act: &act.act,
        door: act.door.as_deref(),
        count: act.count,
        owner: Hex(owner),
        key: Hex(key),
        target: Hex(target),
        details: Hex(details),
    })
}

fn to_text(record: &impl Serialize) -> String {
    let mut text = Vec::with_capacity(1024);
    // Texts and numbers can always be written.
    let _ = serde_json::to_writer(&mut text, record);
    String::from_utf8(text).unwrap_or_default()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExecutionText<'a> {
    v: u8,
    seq: i64,
    kind: &'a str,
    id: ExecutionId,
    skill: &'a str,
    skill_id: SkillId,
    function: &'a str,
    digest: Hex<'a>,
    status: &'a str,
    code: Option<&'a str>,
    exit_code: Option<i64>,
    door: &'a str,
    parent_id: Option<ExecutionId>,
    attempts: Option<i64>,
    created_at: Option<Time>,
    started_at: Option<Time>,
    finished_at: Option<Time>,
    duration_us: Option<i64>,
    queue_us: Option<i64>,
    fuel: Option<i64>,
    memory_peak_bytes: Option<i64>,
    egress_bytes: Option<i64>,
    args_bytes: Option<i64>,
    output_bytes: Option<i64>,
    owner: Hex<'a>,
    key: Hex<'a>,
    session: Hex<'a>,
    args: Hex<'a>,
    output: Hex<'a>,
    details: Hex<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ActText<'a> {
    v: u8,
    seq: i64,
    kind: &'a str,
    at: Time,
    act: &'a str,
    door: Option<&'a str>,
    count: i64,
    owner: Hex<'a>,
    key: Hex<'a>,
    target: Hex<'a>,
    details: Hex<'a>,
}

/// Bytes as hexadecimal digits.
pub(super) struct Hex<'a>(pub(super) &'a [u8]);

impl Serialize for Hex<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut digits = [0; 2 * BYTES];
        match digits.get_mut(..2 * self.0.len()) {
            Some(digits) => {
                // Of just this length, so that it cannot fail.
                let _ = hex::encode_to_slice(self.0, digits);
                serializer.serialize_str(std::str::from_utf8(digits).unwrap_or_default())
            }
            None => serializer.serialize_str(&hex::encode(self.0)),
        }
    }
}

/// Milliseconds since the Unix epoch, as RFC 3339.
pub(super) struct Time(pub(super) i64);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&Clock::rfc3339(self.0))
    }
}

/// What else stands in a column than what belongs there counts as nothing.
pub(super) fn bytes(value: ValueRef<'_>) -> Option<&[u8]> {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes),
        _ => None,
    }
}

pub(super) fn text(value: ValueRef<'_>) -> Option<&str> {
    bytes(value).and_then(|bytes| std::str::from_utf8(bytes).ok())
}

fn number(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Integer(number) => Some(number),
        _ => None,
    }
}

fn id(value: ValueRef<'_>) -> [u8; 16] {
    bytes(value).and_then(|bytes| bytes.try_into().ok()).unwrap_or_default()
}
