//! Power cuts. The real server runs with a recorder below it that sees each write, sync and
//! rename; then the directory is rebuilt as a disk may hold it after a power cut at one of
//! many moments, and a server is started there. What a client had been told must be true.

mod check;
mod disk;
mod known;
mod recording;
mod work;

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

pub(crate) use self::check::{found_loss, named, strays};
pub(crate) use self::known::{Known, Note};

use self::check::{differences, loss};
use self::disk::{Disk, Unsynced};
use self::recording::{Call, Recording};
use crate::campaign::{self, Random};

/// Cuts when no campaign asks for more.
const CUTS: usize = 40;
/// Cuts of which one must find that the journal was not synced.
const JOURNAL_CUTS: usize = 60;

/// The library that is preloaded, built into `dir`.
fn recorder(dir: &Path) -> PathBuf {
    let library = dir.join("recorder.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/power/recorder.c");
    let built = Command::new("cc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", source, "-ldl", "-o"])
        .arg(&library)
        .status()
        .expect("a C compiler");
    assert!(built.success());
    library
}

/// A recorded run, and the directory as it really was at the end.
struct Recorded {
    recording: Recording,
    dir: TempDir,
}

async fn recorded(random: &mut Random) -> Recorded {
    let tools = tempfile::tempdir().unwrap();
    let log = tools.path().join("recording");
    let dir = work::run(&recorder(tools.path()), &log, random).await;
    let recording = Recording::read(&log, dir.path());
    // The host makes the file for the code, and the worker takes it as it is.
    let worker = |call: &Call| matches!(call, Call::Open { path, flags: 0, .. } if path.contains("/tmp/") && path.ends_with(".cwasm"));
    assert!(recording.calls.iter().any(worker), "the compile worker was not recorded");
    assert!(recording.emptied_the_log(), "the write-ahead log was never emptied while in use");
    Recorded { recording, dir }
}

/// Cuts worth trying: half of them right after something was acknowledged.
fn cuts(recording: &Recording, count: usize, random: &mut Random) -> Vec<usize> {
    let all = recording.calls.len();
    let is_note = |at: &usize| matches!(recording.calls[*at], Call::Note(_));
    let notes: Vec<_> = (0..all).filter(is_note).map(|at| at + 1).collect();
    let mut cuts = vec![all];
    while cuts.len() < count {
        let cut = if random.chance(50) { *random.pick(&notes) } else { random.below(all + 1) };
        cuts.push(cut);
    }
    cuts
}

fn unsynced(random: &mut Random) -> Unsynced {
    match random.below(8) {
        0..=2 => Unsynced::Lost,
        3 => Unsynced::Kept,
        _ => Unsynced::Torn { percent: *random.pick(&[10, 50, 90]), sector: *random.pick(&[512, 512, 4096]) },
    }
}

/// Rebuilds the directory after `cut` calls.
fn rebuilt(disk: &Disk<'_>, unsynced: Unsynced, random: &mut Random) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    disk.rebuild(dir.path(), unsynced, random);
    dir
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_power_cut_at_any_moment() {
    let seed = campaign::seed();
    println!("CAMPAIGN_SEED={seed}");
    let mut random = Random::new(seed);
    let Recorded { recording, dir } = recorded(&mut random).await;

    // The recorder missed nothing: with everything kept, the directory is as it really was.
    let whole = Disk::after(&recording, recording.calls.len(), |_| false);
    let copy = rebuilt(&whole, Unsynced::Kept, &mut random);
    assert_eq!(differences(&copy.path().join("data"), &dir.path().join("data")), Vec::<String>::new());

    let cuts = cuts(&recording, campaign::size(CUTS), &mut random);
    let mut acknowledged = 0;
    for (number, cut) in cuts.iter().enumerate() {
        let unsynced = unsynced(&mut random);
        let known = Known::after(&recording.calls[..*cut]);
        acknowledged += known.len();
        let disk = Disk::after(&recording, *cut, |_| false);
        let dir = rebuilt(&disk, unsynced, &mut random);
        if let Some(loss) = loss(dir, &known).await {
            panic!("seed {seed}, cut {number} after {cut} calls, unsynced changes {unsynced:?}: {loss}");
        }
    }
    println!("{} cuts of {} calls; {acknowledged} acknowledgements held", cuts.len(), recording.calls.len());
}

#[tokio::test]
async fn the_power_cuts_find_what_a_missing_sync_loses() {
    let seed = campaign::seed();
    println!("CAMPAIGN_SEED={seed}");
    let mut random = Random::new(seed);
    let Recorded { recording, dir: _dir } = recorded(&mut random).await;
    let all = recording.calls.len();
    let known = Known::after(&recording.calls);
    let lost = async |ignored: disk::Ignored, random: &mut Random| {
        let disk = Disk::after(&recording, all, ignored);
        loss(rebuilt(&disk, Unsynced::Lost, random), &known).await
    };
    assert_eq!(lost(|_| false, &mut random).await, None, "with every sync in its place");
    let ignored: [(&str, disk::Ignored); 5] = [
        ("the write-ahead log", |path| path.ends_with("-wal")),
        ("the database", |path| path == "data/skillvisor.db"),
        ("uploads", |path| path.ends_with(".upload") || path.contains("/blobs/")),
        ("the names of uploads", |path| path == "data/blobs"),
        ("the names in the data directory", |path| path == "data"),
    ];
    for (what, ignored) in ignored {
        let loss = lost(ignored, &mut random).await;
        println!("without syncs of {what}: {loss:?}");
        assert!(loss.is_some(), "a host that does not sync {what} passes");
    }
    // What the journal has is in the database soon after.
    let mut found = None;
    for cut in cuts(&recording, JOURNAL_CUTS, &mut random) {
        let disk = Disk::after(&recording, cut, |path| path.contains(".journal-"));
        let dir = rebuilt(&disk, Unsynced::Lost, &mut random);
        found = loss(dir, &Known::after(&recording.calls[..cut])).await;
        if found.is_some() {
            break;
        }
    }
    println!("without syncs of the journal: {found:?}");
    assert!(found.is_some(), "a host that does not sync the journal passes");
}
