//! Checking an export, with nothing but the export and a public key.

use std::io::{self, BufRead, Read as _};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::AuditPublicKey;
use super::export::Open;
use super::record::{self, BYTES, Committing, Hash};

/// Longest line that is read.
const MAX_LINE: u64 = 64 << 20;

/// What an export holds, up to where it is broken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditReport {
    /// Records of all kinds.
    pub records: u64,
    /// Those of executions.
    pub executions: u64,
    /// Those of administrative acts.
    pub admin: u64,
    /// Records whose owner was erased: what they commit to is known to nobody.
    pub erased: u64,
    /// Signatures, that at the end among them.
    pub checkpoints: u64,
    /// The number of the first record; 1 where nothing was removed before it.
    pub first: Option<i64>,
    /// The number of the last record.
    pub last: Option<i64>,
    /// The last hash, as hexadecimal digits.
    pub head: Option<String>,
    /// When the export was signed (RFC 3339).
    pub signed_at: Option<String>,
    /// The first thing that is wrong.
    pub broken: Option<Broken>,
}

/// What is wrong with an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// In which line, counted from 1.
    pub line: u64,
    /// In which record, if it is one.
    pub seq: Option<i64>,
    /// What.
    pub why: String,
}

/// Checks an export. `known` is a record that must be in it, by number and hash, such as the end of
/// an earlier export.
///
/// # Errors
///
/// As the reader gives them; what is wrong with the export is in the report.
pub fn verify(
    mut export: impl BufRead,
    keys: &[AuditPublicKey],
    known: Option<(i64, &str)>,
) -> io::Result<AuditReport> {
    let mut checking =
        Checking { keys, known, place: None, started_at: 0, ended: false, report: AuditReport::default() };
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        let read = export.by_ref().take(MAX_LINE).read_until(b'\n', &mut text)?;
        let checked = if read == 0 { checking.whole() } else { checking.line(&text) };
        if let Err((seq, why)) = checked {
            checking.report.broken = Some(Broken { line, seq, why });
        }
        if read == 0 || checking.report.broken.is_some() {
            break;
        }
    }
    Ok(checking.report)
}

type Wrong = (Option<i64>, String);

fn wrong<T>(seq: Option<i64>, why: impl Into<String>) -> Result<T, Wrong> {
    Err((seq, why.into()))
}

struct Checking<'k> {
    keys: &'k [AuditPublicKey],
    known: Option<(i64, &'k str)>,
    /// The last record, or the checkpoint before the first one.
    place: Option<(i64, Hash)>,
    started_at: i64,
    ended: bool,
    report: AuditReport,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    hash: Option<&'a str>,
    open: Option<Open>,
    #[serde(borrow)]
    record: Option<&'a RawValue>,
    key: Option<&'a str>,
    signature: Option<&'a str>,
    #[serde(borrow)]
    checkpoint: Option<&'a RawValue>,
    #[serde(borrow)]
    end: Option<&'a RawValue>,
}

/// What a record says that is looked at; the rest is only hashed.
#[derive(Deserialize)]
struct Record<'a> {
    v: u8,
    seq: i64,
    kind: &'a str,
    owner: Option<&'a str>,
    key: Option<&'a str>,
    session: Option<&'a str>,
    target: Option<&'a str>,
    args: Option<&'a str>,
    output: Option<&'a str>,
    details: Option<&'a str>,
}

#[derive(Deserialize)]
struct Word<'a> {
    v: u8,
    kind: &'a str,
    from: Option<i64>,
    seq: i64,
    hash: &'a str,
    at: &'a str,
}

impl Checking<'_> {
    fn line(&mut self, text: &[u8]) -> Result<(), Wrong> {
        if self.ended {
            return wrong(None, "there is more behind the signed end");
        }
        let Ok(line) = serde_json::from_slice::<Line<'_>>(text) else {
            return wrong(None, "is no line of an export, or was cut off");
        };
        match line {
            Line {
                record: Some(text),
                hash: Some(hash),
                open,
                checkpoint: None,
                end: None,
                key: None,
                signature: None,
            } => self.record(text.get(), hash, open.as_ref()),
            Line { checkpoint: Some(text), key: Some(key), signature: Some(sign), end: None, record: None, .. } => {
                self.word("checkpoint", text.get(), (key, sign))
            }
            Line { end: Some(text), key: Some(key), signature: Some(sign), checkpoint: None, record: None, .. } => {
                self.word("end", text.get(), (key, sign))
            }
            _ => wrong(None, "is neither a record nor a checkpoint"),
        }
    }

    fn record(&mut self, text: &str, hash: &str, open: Option<&Open>) -> Result<(), Wrong> {
        let Ok(record) = serde_json::from_str::<Record<'_>>(text) else { return wrong(None, "is no record") };
        let seq = Some(record.seq);
        let (before, hash_before) = self.place.unwrap_or((0, [0; BYTES]));
        if record.seq != before + 1 {
            let why = match self.place {
                None => format!("the export begins with record {} and has no checkpoint before it", record.seq),
                Some(_) => format!("record {} was to come here, and {} does", before + 1, record.seq),
            };
            return wrong(seq, why);
        }
        if record.kind == "missing" {
            return wrong(seq, "the row that it stands for is gone from the database");
        }
        if record.v != 1 {
            return wrong(seq, "is of a newer version; check it with that");
        }
        let found = record::hash(&hash_before, text);
        if hex::encode(found) != hash {
            return wrong(seq, "was changed, or what is before it was: its hash is another");
        }
        if let Some((at, known)) = self.known
            && at == record.seq
            && known != hash
        {
            return wrong(seq, "is not the record of that number that was known before");
        }
        self.values(&record, open)?;
        let report = &mut self.report;
        report.records += 1;
        *(if record.kind == "admin" { &mut report.admin } else { &mut report.executions }) += 1;
        report.erased += u64::from(open.is_none());
        report.first.get_or_insert(record.seq);
        (report.last, report.head) = (seq, Some(hash.to_owned()));
        self.place = Some((record.seq, found));
        Ok(())
    }

    /// Whether what is told of a record is what it commits to.
    fn values(&self, record: &Record<'_>, open: Option<&Open>) -> Result<(), Wrong> {
        let seq = Some(record.seq);
        let Some(open) = open else { return Ok(()) };
        let mut salt = [0; BYTES];
        if hex::decode_to_slice(&open.salt, &mut salt).is_err() {
            return wrong(seq, "its salt is none");
        }
        let mut committing = Committing::with(&salt);
        let one = |text: &Option<String>| vec![text.as_ref().map(|text| text.as_bytes().to_vec())];
        let Ok(args) = open.args.as_ref().map(hex::decode).transpose() else {
            return wrong(seq, "`args` is no digest");
        };
        let Ok(output) = open.output.as_ref().map(hex::decode).transpose() else {
            return wrong(seq, "`output` is no digest");
        };
        let details = open.details.iter().map(|text| text.as_ref().map(|text| text.as_bytes().to_vec())).collect();
        let mut values = vec![("owner", record.owner, one(&open.owner)), ("key", record.key, one(&open.key))];
        match record.kind {
            "execution" => values.extend([
                ("session", record.session, one(&open.session)),
                ("args", record.args, vec![args]),
                ("output", record.output, vec![output]),
            ]),
            _ => values.push(("target", record.target, one(&open.target))),
        }
        values.push(("details", record.details, details));
        for (name, committed, parts) in values {
            let parts: Vec<_> = parts.iter().map(Option::as_deref).collect();
            if committed != Some(&hex::encode(committing.to(name, &parts))) {
                return wrong(seq, format!("`{name}` is not what was written down"));
            }
        }
        Ok(())
    }

    fn word(&mut self, kind: &str, text: &str, (key, signature): (&str, &str)) -> Result<(), Wrong> {
        let signature = hex::decode(signature).unwrap_or_default();
        let Some(key) = self.keys.iter().find(|known| hex::encode(known.bytes()) == key) else {
            return wrong(None, format!("a {kind} is signed with another key ({key}) than was given"));
        };
        if !key.has_signed(text, &signature) {
            return wrong(None, format!("the signature of a {kind} is wrong"));
        }
        let word = serde_json::from_str::<Word<'_>>(text).ok().filter(|word| word.v == 1 && word.kind == kind);
        let Some(word) = word else { return wrong(None, format!("is no {kind}")) };
        let mut hash = [0; BYTES];
        if hex::decode_to_slice(word.hash, &mut hash).is_err() {
            return wrong(None, format!("is no {kind}"));
        }
        if self.place.is_none() && kind == "checkpoint" {
            self.started_at = word.seq;
            self.place = Some((word.seq, hash));
        }
        if self.place.unwrap_or((0, [0; BYTES])) != (word.seq, hash) {
            return wrong(None, format!("a {kind} was signed for record {}, which is not what is before it", word.seq));
        }
        self.report.checkpoints += 1;
        self.report.head.get_or_insert_with(|| word.hash.to_owned());
        if kind == "end" {
            if word.from != Some(self.started_at) {
                return wrong(None, "the start is cut off: the export was signed from another record on");
            }
            (self.ended, self.report.signed_at) = (true, Some(word.at.to_owned()));
        }
        Ok(())
    }

    /// At the end of the file.
    fn whole(&self) -> Result<(), Wrong> {
        let last = self.report.last.unwrap_or(self.started_at);
        if !self.ended {
            return wrong(None, format!("the end is cut off: nothing is signed behind record {last}"));
        }
        match self.known {
            Some((known, _)) if known > last => {
                wrong(None, format!("record {known}, which was known before, is not there: the last is {last}"))
            }
            Some((known, _)) if known <= self.started_at => {
                wrong(None, format!("record {known} is older than what is here; export from before it"))
            }
            _ => Ok(()),
        }
    }
}
