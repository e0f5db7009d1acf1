//! What the machine lets this process do.

use rustix::process::{Resource, getrlimit};

use super::Check;

/// Open files that a busy server needs: connections, compiled components, the database.
const OPEN_FILES: u64 = 4096;
/// Memory mappings that the pool of instances needs with room to spare.
const MAPPINGS: u64 = 65_530;
/// The first kernel with `PAGEMAP_SCAN`, by which instances are wiped faster.
const PAGEMAP_SCAN_SINCE: (u32, u32) = (6, 7);

pub(super) fn checks() -> Vec<Check> {
    let mut checks = vec![cpus(), open_files(), address_space(), kernel()];
    checks.extend(mappings());
    checks.extend(overcommit());
    checks
}

fn cpus() -> Check {
    match std::thread::available_parallelism() {
        Ok(count) if count.get() == 1 => {
            Check::warn("cpus", "1 CPU", "skills and requests share it; give the machine or container a second one")
        }
        Ok(count) => Check::ok("cpus", format!("{count} CPUs")),
        Err(error) => Check::warn("cpus", format!("unknown: {error}"), "check the CPU limits of the container"),
    }
}

fn open_files() -> Check {
    let limit = getrlimit(Resource::Nofile).current;
    let found = limit.map_or_else(|| "no limit".to_owned(), |limit| limit.to_string());
    if limit.is_none_or(|limit| limit >= OPEN_FILES) {
        return Check::ok("open files", found);
    }
    Check::warn(
        "open files",
        found,
        format!("raise it: `ulimit -n {OPEN_FILES}`, or LimitNOFILE={OPEN_FILES} in the systemd unit"),
    )
}

fn address_space() -> Check {
    match getrlimit(Resource::As).current {
        None => Check::ok("address space", "no limit"),
        Some(limit) => Check::fail(
            "address space",
            format!("limited to {limit} bytes"),
            "remove it (`ulimit -v unlimited`): the sandbox reserves much address space, and uses little of it",
        ),
    }
}

fn kernel() -> Check {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let found = format!("Linux {release}");
    if version(&release).is_some_and(|version| version >= PAGEMAP_SCAN_SINCE) {
        return Check::ok("kernel", found);
    }
    Check::warn("kernel", found, "Linux 6.7 and newer wipe a used sandbox faster (PAGEMAP_SCAN); older ones work")
}

fn mappings() -> Option<Check> {
    let limit: u64 = read("/proc/sys/vm/max_map_count")?.parse().ok()?;
    Some(if limit >= MAPPINGS {
        Check::ok("memory mappings", limit.to_string())
    } else {
        Check::warn("memory mappings", limit.to_string(), format!("sysctl -w vm.max_map_count={MAPPINGS}"))
    })
}

fn overcommit() -> Option<Check> {
    let mode = read("/proc/sys/vm/overcommit_memory")?;
    let mend = "sysctl -w vm.overcommit_memory=0, or the sandbox cannot reserve its address space";
    Some(match mode.as_str() {
        "2" => Check::warn("overcommit", "strict (vm.overcommit_memory=2)", mend),
        _ => Check::ok("overcommit", format!("allowed (vm.overcommit_memory={mode})")),
    })
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// Major and minor version of a kernel release such as `6.8.0-45-generic`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_releases_are_compared_by_number() {
        assert_eq!(version("6.18.44-fc"), Some((6, 18)));
        assert!(version("6.10.0").unwrap() > PAGEMAP_SCAN_SINCE);
        assert!(version("5.15.0-1-amd64").unwrap() < PAGEMAP_SCAN_SINCE);
        assert_eq!(version("unknown"), None);
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        assert!(checks().iter().all(|check| !check.found.is_empty()));
    }
}
