use std::path::Path;

use rusqlite::Connection;

use super::*;
use crate::model::{KeyId, OwnerId};
use crate::store::executions::tests::{begun, end, ended};
use crate::store::{FILE_NAME, Store, answered, connect};
use crate::telemetry::Telemetry;

fn open(dir: &Path) -> Store {
    Store::open(dir, Telemetry::new()).unwrap()
}

async fn exported(store: &Store, since: Option<i64>) -> String {
    let mut export = store.audit_export(since, 1_000).await.unwrap();
    let mut text = String::new();
    while let Some(lines) = export.next().await.unwrap() {
        text += &lines;
    }
    text
}

fn checked(export: &str, store: &Store) -> AuditReport {
    verify(export.as_bytes(), &[store.audit_key()], None).unwrap()
}

fn broken(export: &str, store: &Store) -> String {
    checked(export, store).broken.expect("nothing is found to be broken").why
}

/// A store with runs, an act, and two checkpoints in between.
async fn filled(dir: &Path) -> Store {
    let store = open(dir);
    for round in 0..3 {
        ended(&store, 5 + round, 20).await;
        let act = Act::of_host("key.create", 7).to(&OwnerId::admin(), KeyId::generate());
        store.note(act.with(&serde_json::json!({ "name": "ci" })));
        store.checkpoint(10 * round).await.unwrap();
    }
    store
}

#[tokio::test]
async fn an_export_is_checked_with_nothing_but_the_public_key() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path()).await;
    let export = exported(&store, None).await;
    let report = checked(&export, &store);
    assert_eq!(report.broken, None, "{export}");
    assert_eq!((report.records, report.executions, report.admin, report.erased), (7, 3, 4, 0));
    assert_eq!((report.first, report.last), (Some(1), Some(7)));
    let other = Signer::open(tempfile::tempdir().unwrap().path()).unwrap().public();
    let by_other = verify(export.as_bytes(), &[other], None).unwrap();
    assert!(by_other.broken.unwrap().why.contains("another key"));
    let pem = store.audit_key().to_pem();
    assert_eq!(AuditPublicKey::parse(&pem), Ok(store.audit_key()));
    // Who has an earlier end finds it in a later export.
    let known = report.head.unwrap();
    let found = |known| verify(export.as_bytes(), &[store.audit_key()], Some(known)).unwrap().broken;
    assert_eq!(found((7, &known)), None);
    assert!(found((6, &known)).unwrap().why.contains("known before"));
    assert!(found((8, &known)).unwrap().why.contains("is not there"));
}

#[tokio::test]
async fn no_byte_of_an_export_can_be_another() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path()).await;
    let export = exported(&store, None).await;
    for at in (0..export.len() - 1).step_by(3) {
        let mut changed = export.clone().into_bytes();
        changed[at] ^= 1;
        let report = verify(&*changed, &[store.audit_key()], None).unwrap();
        assert!(report.broken.is_some(), "{}", String::from_utf8_lossy(&changed[at.saturating_sub(40)..][..60]));
    }
}

#[tokio::test]
async fn what_is_left_out_put_in_swapped_or_cut_off_is_found_and_the_record_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path()).await;
    let export = exported(&store, None).await;
    let lines: Vec<&str> = export.split_inclusive('\n').collect();
    for at in 0..lines.len() {
        let is_record = lines[at].contains("\"record\"");
        let without: String = [&lines[..at], &lines[at + 1..]].concat().concat();
        // A checkpoint in between can be missing: what is behind it says the same of the records.
        assert_eq!(checked(&without, &store).broken.is_some(), is_record || at + 1 == lines.len(), "{}", lines[at]);
        let twice: String = [&lines[..=at], &lines[at..]].concat().concat();
        if is_record || at + 1 == lines.len() {
            broken(&twice, &store);
        }
        broken(&lines[..at].concat(), &store);
        broken(&(lines[..at].concat() + &lines[at][..lines[at].len() / 2]), &store);
        if at + 1 < lines.len() {
            let mut swapped = lines.clone();
            swapped.swap(at, at + 1);
            broken(&swapped.concat(), &store);
        }
    }
    let cut: String = lines[2..].concat();
    assert!(broken(&cut, &store).contains("begins with record 3"));
    let first_checkpoint = lines.iter().position(|line| line.contains("\"checkpoint\"")).unwrap();
    assert!(broken(&lines[first_checkpoint..].concat(), &store).contains("start is cut off"));
    assert!(broken(&lines[..=first_checkpoint].concat(), &store).contains("end is cut off"));
    let changed = export.replacen("\"status\":\"success\"", "\"status\":\"timeout\"", 1);
    let found = checked(&changed, &store).broken.unwrap();
    assert_eq!((found.line, found.seq), (2, Some(2)));
    let erased = export.replacen("\"owner\":\"admin\"", "\"owner\":\"other\"", 1);
    assert!(broken(&erased, &store).contains("`owner`"));
}

#[tokio::test]
async fn who_changes_a_row_of_the_database_is_found() {
    for change in [
        "UPDATE ended_executions SET status = 'timeout' WHERE rowid_of = 1",
        "UPDATE ended_executions SET owner = 'other' WHERE rowid_of = 1",
        "UPDATE ended_executions SET args_copy = '{\"a\":1}' WHERE rowid_of = 1",
        "DELETE FROM ended_executions WHERE rowid_of = 1",
        "DELETE FROM audit_chain WHERE seq = 2",
        "DELETE FROM audit_chain WHERE seq >= 6",
        "UPDATE admin_acts SET act = 'key.revoke' WHERE seq = 3",
        "DELETE FROM admin_acts WHERE seq = 3",
        "UPDATE audit_checkpoints SET hash = zeroblob(32) WHERE seq = 3",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let store = filled(dir.path()).await;
        let first = "id = (SELECT execution_id FROM audit_chain WHERE seq = 2)";
        let raw = connect(&dir.path().join(FILE_NAME)).unwrap();
        assert!(raw.execute(&change.replace("rowid_of = 1", first), []).unwrap() > 0, "{change}");
        let export = exported(&store, None).await;
        assert!(checked(&export, &store).broken.is_some(), "{change}: {export}");
    }
}

#[tokio::test]
async fn who_makes_all_hashes_anew_has_not_the_signatures() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path()).await;
    let raw = connect(&dir.path().join(FILE_NAME)).unwrap();
    raw.execute("UPDATE ended_executions SET status = 'timeout'", []).unwrap();
    let mut before = [0; 32];
    let texts: Vec<String> = exported(&store, None)
        .await
        .lines()
        .filter_map(|line| Some(line.split_once("\"record\":")?.1.strip_suffix('}')?.to_owned()))
        .collect();
    for (at, text) in texts.iter().enumerate() {
        before = record::hash(&before, text);
        raw.execute("UPDATE audit_chain SET hash = ?2 WHERE seq = ?1", rusqlite::params![at + 1, before]).unwrap();
    }
    assert!(broken(&exported(&store, None).await, &store).contains("signed for record 3"));
    raw.execute("DELETE FROM audit_checkpoints", []).unwrap();
    // What is left is an earlier export, or an end that was kept elsewhere.
    assert_eq!(checked(&exported(&store, None).await, &store).broken, None);
}

#[tokio::test]
async fn a_record_that_comes_twice_is_in_the_chain_once_also_across_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let (store, copy) = (open(dir.path()), tempfile::tempdir().unwrap());
    let execution = begun(&store, 1).await;
    // As a host that dies before anything is in the database: the journal has it all.
    let keep_writer = |name: &str| std::fs::copy(dir.path().join(name), copy.path().join(name)).unwrap();
    store.executions(Default::default()).await.unwrap();
    let raw = connect(&dir.path().join(FILE_NAME)).unwrap();
    raw.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    for name in [FILE_NAME, AUDIT_KEY_FILE] {
        keep_writer(name);
    }
    end(&store, execution, 9, 20).await;
    ended(&store, 9, 20).await;
    for name in crate::store::JOURNAL_NAMES {
        keep_writer(name);
    }
    for _ in 0..2 {
        let again = open(copy.path());
        let report = checked(&exported(&again, None).await, &again);
        assert_eq!((report.broken, report.executions), (None, 2));
        again.close().await;
    }
}

#[tokio::test]
async fn what_a_dead_host_left_open_is_in_the_chain_as_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let id = begun(&store, 1).await.id;
    begun(&store, 2).await;
    assert_eq!(store.interrupt_open_executions(9).await.unwrap(), 2);
    let export = exported(&store, None).await;
    let report = checked(&export, &store);
    assert_eq!((report.broken, report.executions), (None, 2));
    let line = export.lines().find(|line| line.contains(&id.to_string())).unwrap();
    assert!(line.contains("\"code\":\"interrupted\""), "{line}");
}

#[tokio::test]
async fn an_owner_who_is_erased_leaves_a_whole_chain_and_nothing_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path()).await;
    let before = exported(&store, None).await;
    let erasure = store.begin_erasure(OwnerId::admin(), 1).await.unwrap();
    assert_eq!(store.begin_erasure(OwnerId::admin(), 2).await.unwrap(), erasure);
    assert_eq!(store.erasures().await.unwrap(), std::slice::from_ref(&erasure));
    store.erase_belongings(OwnerId::admin()).await.unwrap();
    // Twice, as after a crash.
    for erased in [6, 0] {
        assert_eq!(store.erase_records(erasure.clone(), 0).await.unwrap(), Some((7, erased)));
    }
    assert_eq!(store.erase_records(erasure.clone(), 7).await.unwrap(), None);
    assert_eq!(store.erase_unrecorded(erasure, 7).await.unwrap(), 0);
    assert!(store.end_erasure(OwnerId::admin()).await.unwrap());
    assert_eq!(store.erasures().await.unwrap(), []);
    let after = exported(&store, None).await;
    let report = checked(&after, &store);
    assert_eq!((report.broken, report.records, report.erased), (None, 7, 6));
    assert_eq!(report.head, checked(&before, &store).head);
    assert!(!after.contains("\"owner\":\"admin\"") && !after.contains("xxxx"), "{after}");
    let salts: Vec<&str> = before.lines().filter_map(|line| line.split_once("\"salt\":\"")?.1.get(..64)).collect();
    store.close().await;
    // No file of the database has the salts, without which nobody can try what the values were.
    for name in [FILE_NAME, "skillvisor.db-wal"] {
        let Ok(bytes) = std::fs::read(dir.path().join(name)) else { continue };
        let found = salts.iter().filter(|salt| {
            let salt = hex::decode(salt).unwrap();
            bytes.windows(32).any(|window| window == salt)
        });
        assert_eq!(found.count(), 1, "{name}: only the one of the first record");
    }
}

#[tokio::test]
async fn retention_ends_at_a_checkpoint_and_the_rest_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path()).await;
    // The checkpoints are at 0, 10 and 20, behind the records 3, 5 and 7.
    assert_eq!(store.purge_audit(0, 100).await.unwrap(), (0, 0));
    assert_eq!(store.purge_audit(20, 2).await.unwrap(), (2, 5));
    // Half of it is done, and what is there is whole from the next checkpoint on.
    let report = checked(&exported(&store, None).await, &store);
    assert_eq!((report.broken, report.first, report.last), (None, Some(4), Some(7)));
    assert_eq!(store.purge_audit(20, 100).await.unwrap(), (3, 5));
    assert_eq!(store.purge_audit(20, 100).await.unwrap(), (0, 5));
    let report = checked(&exported(&store, None).await, &store);
    assert_eq!((report.broken, report.first, report.last), (None, Some(6), Some(7)));
    // The last export signed at 1000.
    assert_eq!(store.purge_audit(1_001, 100).await.unwrap(), (2, 7));
    let report = checked(&exported(&store, None).await, &store);
    assert_eq!((report.broken, report.records), (None, 0));
    ended(&store, 5, 20).await;
    let report = checked(&exported(&store, None).await, &store);
    assert_eq!((report.broken, report.first), (None, Some(8)));
}

#[tokio::test]
async fn an_export_since_a_time_begins_at_the_last_checkpoint_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path()).await;
    for (since, first) in [(0, Some(1)), (10, Some(4)), (11, Some(6)), (20, Some(6)), (5_000, None)] {
        let report = checked(&exported(&store, Some(since)).await, &store);
        assert_eq!((report.broken, report.first), (None, first), "{since}");
    }
}

#[tokio::test]
async fn a_clock_that_is_set_back_sets_no_checkpoint_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for now in [500, 20] {
        ended(&store, now, 20).await;
        store.checkpoint(now).await.unwrap();
    }
    let raw = connect(&dir.path().join(FILE_NAME)).unwrap();
    let times: String = raw.query_row("SELECT group_concat(at) FROM audit_checkpoints", [], |row| row.get(0)).unwrap();
    assert_eq!(times, "500,500");
    assert_eq!(checked(&exported(&store, None).await, &store).broken, None);
}

#[tokio::test]
async fn a_thousand_records_are_signed_without_anybody_asking_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for _ in 0..1_001 {
        store.note(Act::of_host("key.create", 7));
    }
    answered(|then| store.writer.send(|_| Ok(()), then)).await.unwrap();
    let raw = connect(&dir.path().join(FILE_NAME)).unwrap();
    let count = "SELECT count(*) FROM audit_checkpoints";
    assert!(raw.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap() > 0);
}

#[tokio::test]
async fn a_change_and_its_act_are_written_down_together_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let act = || Act::of_host("secret.remove", 7);
    let records = async || checked(&exported(&store, None).await, &store).records;
    store.by(act()).delete_secret(OwnerId::admin(), "NONE".parse().unwrap()).await.unwrap();
    assert_eq!(records().await, 1, "nothing was removed");
    let acting = store.by(act());
    let failed = acting.write_together(|connection: &Connection| {
        connection.execute("INSERT INTO skill_texts VALUES (x'00', 'a')", [])?;
        Err::<(), _>(rusqlite::Error::QueryReturnedNoRows)
    });
    failed.await.unwrap_err();
    assert_eq!(records().await, 1, "nothing was changed");
    store.by(act()).write(|c| c.execute("INSERT INTO skill_texts VALUES (x'00', 'a')", [])).await.unwrap();
    assert_eq!(records().await, 2);
}

#[tokio::test]
async fn another_key_is_written_down_and_the_old_one_still_checks_what_was_before() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path()).await;
    let old = store.audit_key();
    store.close().await;
    std::fs::remove_file(dir.path().join(AUDIT_KEY_FILE)).unwrap();
    let store = open(dir.path());
    let export = exported(&store, None).await;
    assert!(export.contains("\"act\":\"audit.key\""));
    let by = |keys: &[AuditPublicKey]| verify(export.as_bytes(), keys, None).unwrap().broken;
    assert_eq!(by(&[old, store.audit_key()]), None);
    assert!(by(&[old]).unwrap().why.contains("another key"));
}

#[test]
fn a_key_that_others_can_read_or_that_is_none_stops_the_start() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    Signer::open(dir.path()).unwrap();
    let file = dir.path().join(AUDIT_KEY_FILE);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(Signer::open(dir.path()).err().unwrap().detail.contains("chmod 600"));
    std::fs::write(&file, "nonsense").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(Signer::open(dir.path()).err().unwrap().detail.contains("no Ed25519 key"));
}

#[tokio::test]
async fn a_look_at_the_end_finds_what_was_changed_there() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path()).await;
    exported(&store, None).await;
    let raw = connect(&dir.path().join(FILE_NAME)).unwrap();
    assert_eq!(head_is_sound(&raw).unwrap(), Ok(7));
    raw.execute_batch("SAVEPOINT a; DELETE FROM audit_chain WHERE seq = 7").unwrap();
    assert!(head_is_sound(&raw).unwrap().unwrap_err().contains("gone"));
    raw.execute_batch("ROLLBACK TO a; UPDATE ended_executions SET status = 'timeout'").unwrap();
    assert!(head_is_sound(&raw).unwrap().unwrap_err().contains("is not what"));
}

#[tokio::test]
async fn a_run_that_ends_while_its_owner_is_erased_is_erased_with_its_record() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path()).await;
    let erasure = store.begin_erasure(OwnerId::admin(), 1).await.unwrap();
    assert_eq!(store.erase_records(erasure.clone(), 0).await.unwrap(), Some((7, 6)));
    ended(&store, 9, 20).await;
    // With its record, or not at all: else the record would be one of something else.
    assert_eq!(store.erase_unrecorded(erasure.clone(), 7).await.unwrap(), 0);
    assert!(!store.end_erasure(OwnerId::admin()).await.unwrap());
    assert_eq!(store.erasures().await.unwrap(), std::slice::from_ref(&erasure));
    assert_eq!(store.erase_records(erasure.clone(), 7).await.unwrap(), Some((8, 1)));
    assert!(store.end_erasure(OwnerId::admin()).await.unwrap());
    let export = exported(&store, None).await;
    let report = checked(&export, &store);
    assert_eq!((report.broken, report.erased), (None, 7), "{export}");
    assert!(!export.contains("\"owner\":\"admin\""), "{export}");
}
