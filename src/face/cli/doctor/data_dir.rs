//! What the data directory lies on, and who may touch it.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::face::cli::table;
use crate::files;
use crate::host::{ADMIN_KEY_FILE, LOCK_FILE};
use crate::secrets::KEY_FILE;
use crate::store::{self, AUDIT_KEY_FILE, BACKUP_NAME, JOURNAL_NAMES};

use super::Check;

/// Free space below which nothing works, and below which somebody should look.
const TOO_LITTLE: u64 = 256 << 20;
const LITTLE: u64 = 2 << 30;
/// A disk that takes longer for one write is the bottleneck of every execution.
const SLOW_SYNC: Duration = Duration::from_millis(20);
/// What was asked and answered, and who holds the lock.
const RECORDS: [&str; 7] = [
    "skillvisor.db",
    "skillvisor.db-wal",
    "skillvisor.db-shm",
    JOURNAL_NAMES[0],
    JOURNAL_NAMES[1],
    BACKUP_NAME,
    LOCK_FILE,
];
/// How often a write is timed.
const SYNCS: usize = 9;

pub(super) fn checks(data_dir: &Path) -> Vec<Check> {
    let shown = data_dir.display();
    if !data_dir.exists() {
        let found = format!("{shown} does not exist yet; the first start makes it");
        let mut checks = vec![Check::ok("data directory", found)];
        // Whatever exists above it is what it will lie on.
        checks.extend(data_dir.ancestors().find(|path| path.exists()).and_then(|path| free(path).ok()));
        return checks;
    }
    let mut checks = vec![alone(data_dir)];
    checks.extend(private(data_dir, "admin key", &[ADMIN_KEY_FILE]));
    checks.extend(private(data_dir, "secrets key", &[KEY_FILE]));
    checks.extend(private(data_dir, "audit key", &[AUDIT_KEY_FILE]));
    checks.extend(private(data_dir, "records", &RECORDS));
    checks.extend(database(data_dir));
    checks.extend(audit(data_dir));
    checks.push(free(data_dir).unwrap_or_else(|error| unknown("free disk", &error)));
    checks.push(sync(data_dir).unwrap_or_else(|error| unknown("disk latency", &error)));
    checks
}

/// Whether nobody else can write the directory, what lies in it, or what lies above it.
fn alone(data_dir: &Path) -> Check {
    let inner = ["cache", "blobs"].map(|name| data_dir.join(name));
    for directory in std::iter::once(data_dir).chain(inner.iter().map(PathBuf::as_path).filter(|path| path.exists())) {
        let shown = directory.display();
        match files::foreign_writers(directory) {
            Ok(None) => {}
            Ok(Some(why)) => {
                let mend = format!(
                    "run as its owner and close what is named to others, or: chmod 700 {0} && chown $(id -u) {0}",
                    table::shell_word(&shown.to_string())
                );
                return Check::fail("data directory", format!("{shown}: {why}"), mend);
            }
            Err(error) => {
                let found = format!("{shown}: {error}");
                return Check::fail("data directory", found, "check that this user may enter it");
            }
        }
    }
    Check::ok("data directory", format!("only this user may write {}", data_dir.display()))
}

fn unknown(name: &'static str, error: &std::io::Error) -> Check {
    Check::warn(name, format!("could not be measured: {error}"), "run doctor as the user that runs the server")
}

/// Files that only their owner may read or lock, whoever may enter the directory. None if
/// there is none of them.
fn private(data_dir: &Path, name: &'static str, files: &[&str]) -> Option<Check> {
    let modes = files.iter().filter_map(|file| {
        let path = data_dir.join(file);
        Some((path.metadata().ok()?.mode() & 0o777, file, path))
    });
    // The one that is open to most comes last.
    let (mode, file, path) = modes.max_by_key(|(mode, ..)| mode & 0o077)?;
    let found = format!("{file} has mode {mode:o}");
    Some(if mode & 0o077 == 0 {
        Check::ok(name, found)
    } else {
        Check::fail(name, found, format!("chmod 600 {}", table::shell_word(&path.display().to_string())))
    })
}

/// Whether the database is one of this program's, and every skill in it can be read.
fn database(data_dir: &Path) -> Option<Check> {
    let name = "database";
    let health = match store::health(data_dir) {
        Ok(health) => health?,
        Err(error) => {
            let mend = "run doctor as the user that runs the server; a damaged database is restored from a backup";
            return Some(Check::fail(name, format!("cannot be read: {error}"), mend));
        }
    };
    let (schema, newest) = (health.schema, health.newest);
    if schema > newest {
        let found = format!("a newer version wrote it (schema {schema}; this one knows {newest})");
        return Some(Check::fail(name, found, "start the newer version, or restore a backup"));
    }
    if schema < newest {
        let found = format!("the next start upgrades it (schema {schema} to {newest}) and keeps {BACKUP_NAME}");
        return Some(Check::ok(name, found));
    }
    let count = health.damaged.len();
    let Some(first) = health.damaged.first() else {
        return Some(Check::ok(name, format!("all {} versions of skills can be read", health.skills)));
    };
    let found = format!("{count} of {} versions of skills cannot be read and are left out: {first}", health.skills);
    Some(Check::fail(name, found, "publish them under other versions, or restore a backup; the rest works"))
}

/// Whether the end of the audit is as it was written. All of it is looked at by `audit verify`.
fn audit(data_dir: &Path) -> Option<Check> {
    let health = store::health(data_dir).ok()??;
    if health.schema != health.newest {
        return None;
    }
    Some(match health.audit {
        Ok(last) => Check::ok("audit", format!("{last} records; the newest are as they were written")),
        Err(why) => Check::fail(
            "audit",
            why,
            "somebody changed the database: keep a copy of it, and compare `skillvisor audit export` with earlier exports",
        ),
    })
}

fn free(path: &Path) -> std::io::Result<Check> {
    let disk = rustix::fs::statvfs(path)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let found = format!("{} free", table::bytes(free));
    let mend = "free some space, or put data_dir on a larger disk";
    Ok(match free {
        0..TOO_LITTLE => Check::fail("free disk", found, mend),
        TOO_LITTLE..LITTLE => Check::warn("free disk", found, mend),
        _ => Check::ok("free disk", found),
    })
}

/// How long the disk takes to keep a small write: every execution waits for two of them.
fn sync(data_dir: &Path) -> std::io::Result<Check> {
    let path = data_dir.join(format!("doctor-{}.tmp", std::process::id()));
    let mut file = files::create_private(&path)?;
    let times = (0..SYNCS).map(|_| timed_write(&mut file)).collect::<std::io::Result<Vec<_>>>();
    // The measurement matters more than its left-over.
    let _ = std::fs::remove_file(&path);
    let mut times = times?;
    times.sort_unstable();
    let median = times.get(SYNCS / 2).copied().unwrap_or_default();
    let found = format!("a durable write takes {}", table::time(median));
    Ok(if median > SLOW_SYNC {
        Check::warn("disk latency", found, "put data_dir on a local SSD; network disks and SD cards are slow to sync")
    } else {
        Check::ok("disk latency", found)
    })
}

fn timed_write(file: &mut File) -> std::io::Result<Duration> {
    let start = Instant::now();
    file.write_all(&[0; 4096])?;
    file.sync_data()?;
    Ok(start.elapsed())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::Verdict;
    use super::*;

    fn verdict(checks: &[Check], name: &str) -> Option<Verdict> {
        checks.iter().find(|check| check.name == name).map(|check| check.verdict)
    }

    #[test]
    fn a_directory_that_others_can_write_is_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(verdict(&checks(dir.path()), "data directory"), Some(Verdict::Ok));
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(verdict(&checks(dir.path()), "data directory"), Some(Verdict::Fail));
    }

    #[test]
    fn an_inner_or_an_outer_directory_that_others_can_write_is_a_failure() {
        for open in ["", "data/cache", "data/blobs"] {
            let dir = tempfile::tempdir().unwrap();
            let data = dir.path().join("data");
            for inner in ["cache", "blobs"] {
                files::create_private_directory(&data.join(inner)).unwrap();
            }
            assert_eq!(verdict(&checks(&data), "data directory"), Some(Verdict::Ok));
            std::fs::set_permissions(dir.path().join(open), std::fs::Permissions::from_mode(0o777)).unwrap();
            assert_eq!(verdict(&checks(&data), "data directory"), Some(Verdict::Fail), "{open}");
        }
    }

    #[test]
    fn what_others_can_read_or_lock_is_a_failure() {
        for (file, name) in [
            (ADMIN_KEY_FILE, "admin key"),
            (KEY_FILE, "secrets key"),
            ("skillvisor.db-wal", "records"),
            (LOCK_FILE, "records"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            assert_eq!(verdict(&checks(dir.path()), name), None);
            let file = dir.path().join(file);
            drop(files::create_private(&file).unwrap());
            assert_eq!(verdict(&checks(dir.path()), name), Some(Verdict::Ok));
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
            assert_eq!(verdict(&checks(dir.path()), name), Some(Verdict::Fail));
        }
    }

    #[test]
    fn a_directory_that_is_not_there_yet_is_no_failure() {
        let dir = tempfile::tempdir().unwrap();
        let found = checks(&dir.path().join("a/b"));
        assert_eq!(verdict(&found, "data directory"), Some(Verdict::Ok));
        assert!(verdict(&found, "free disk").is_some());
    }

    #[test]
    fn measuring_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        assert!(verdict(&checks(dir.path()), "disk latency").is_some());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
