//! What an engine is told about one container: every limit of it, in words of the engine.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use crate::model::{Code, Error};

use super::client::{Client, Kind};

/// Processes and threads of one container.
const PROCESSES: u64 = 128;
/// Most of its memory that `/tmp` may take, in MiB.
const TMP_MB: u64 = 64;
/// Least memory with which engines start anything, in MiB.
pub(super) const LEAST_MEMORY_MB: u64 = 6;
/// Who runs in a container: nobody that this host knows.
const USER: &str = "1000:1000";
/// Where a skill finds its files, and where it begins.
pub(super) const WORKSPACE: &str = "/workspace";
/// The arguments once more, as a variable.
pub(super) const ARGS_VARIABLE: &str = "SKILL_ARGS";

/// What `/workspace` is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Files {
    /// An empty directory that cannot be written.
    Empty,
    /// An empty directory of so many MiB that is gone afterwards.
    Scratch(u64),
}

/// One container.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) name: &'a str,
    /// Of the host that it belongs to.
    pub(super) label: &'a str,
    pub(super) image: &'a str,
    pub(super) command: &'a [String],
    pub(super) env: &'a BTreeMap<String, String>,
    pub(super) has_args_variable: bool,
    pub(super) cpu_percent: u64,
    pub(super) memory_mb: u64,
    /// When the engine ends it by itself, should its host be gone by then.
    pub(super) backstop_s: u64,
    pub(super) files: Files,
    pub(super) seccomp: &'a Path,
}

/// Refuses variables that would not come through as they are.
///
/// # Errors
///
/// `malformed`, with the name.
pub(super) fn require_sane_env<'a>(env: impl IntoIterator<Item = (&'a String, &'a String)>) -> Result<(), Error> {
    let first = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    for (name, value) in env {
        let legal = name.bytes().next().is_some_and(first) && name.bytes().all(|b| first(b) || b.is_ascii_digit());
        if !legal || name == ARGS_VARIABLE || value.contains('\0') {
            let detail = format!(
                "the variable {:?} cannot be given to a container: names are letters, digits and `_`, but not \
                 {ARGS_VARIABLE}, and values have no NUL",
                crate::model::quotable(name)
            );
            return Err(Error::new(Code::Malformed, detail));
        }
    }
    Ok(())
}

/// The arguments of the client that run one container to its end.
///
/// # Errors
///
/// `unavailable` for a directory whose name cannot be told to an engine.
pub(super) fn run(client: &Client, plan: &Plan<'_>) -> Result<Vec<OsString>, Error> {
    let mut argv = Vec::with_capacity(64);
    if let (Kind::Podman, Some(runtime)) = (client.kind, &client.runtime) {
        argv.push(format!("--runtime={runtime}").into());
    }
    words(&mut argv, &["run", "-i", "--pull=never", "--network=none", "--ipc=none", "--log-driver=none"]);
    words(&mut argv, &["--no-healthcheck", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges"]);
    words(&mut argv, &["--hostname=skill", "--stop-timeout=1"]);
    match client.kind {
        // `oom` in its working directory tells how it ended, so that nothing has to be asked afterwards.
        Kind::Podman => {
            words(&mut argv, &["--rm", "--no-hosts", "--read-only-tmpfs=false", "--http-proxy=false"]);
            words(&mut argv, &["--image-volume=ignore"]);
            argv.push(format!("--timeout={}", plan.backstop_s).into());
        }
        // Whether memory ended it is asked before it is removed.
        Kind::Docker => argv.extend(client.runtime.iter().map(|runtime| format!("--runtime={runtime}").into())),
    }
    argv.push(option("--security-opt=seccomp=", plan.seccomp)?);
    argv.push(format!("--name={}", plan.name).into());
    argv.push(format!("--label={}", plan.label).into());
    argv.push(format!("--user={USER}").into());
    limits(&mut argv, plan);
    files(&mut argv, client.kind, plan.files);
    if plan.has_args_variable {
        // The value is in the client's environment: others on the machine may read what its arguments are.
        argv.push(format!("--env={ARGS_VARIABLE}").into());
    }
    argv.extend(plan.env.iter().map(|(name, value)| format!("--env={name}={value}").into()));
    // From here on nothing is an option any more.
    argv.push(plan.image.into());
    argv.extend(plan.command.iter().map(OsString::from));
    Ok(argv)
}

fn limits(argv: &mut Vec<OsString>, plan: &Plan<'_>) {
    let memory = plan.memory_mb;
    let most = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let percent = plan.cpu_percent.clamp(1, most * 100);
    let open = hard(Resource::Nofile).min(1024);
    // Counted for the user, who is the same in all containers. Podman lowers its own limit, and with it the
    // most that a container can be given, to something above this.
    let processes = hard(Resource::Nproc).min(16_384);
    argv.extend(
        [
            format!("--cpus={}.{:02}", percent / 100, percent % 100),
            format!("--memory={memory}m"),
            // The same, so that there is no swap beyond it.
            format!("--memory-swap={memory}m"),
            format!("--pids-limit={PROCESSES}"),
            format!("--ulimit=nofile={open}:{open}"),
            format!("--ulimit=nproc={processes}:{processes}"),
            "--ulimit=core=0:0".to_owned(),
            "--ulimit=msgqueue=0:0".to_owned(),
            format!("--tmpfs=/tmp:rw,size={}m,mode=1777,noexec,nosuid,nodev", TMP_MB.min(memory.div_ceil(2))),
        ]
        .map(OsString::from),
    );
}

fn files(argv: &mut Vec<OsString>, kind: Kind, files: Files) {
    argv.push(format!("--workdir={WORKSPACE}").into());
    // Docker makes the directory first, and so the mode is not the one that it is told.
    let whose = if kind == Kind::Docker { "mode=0755,uid=1000,gid=1000" } else { "mode=1777" };
    let what = match files {
        Files::Empty => "ro,size=4k,mode=0555".to_owned(),
        Files::Scratch(mb) => format!("rw,size={mb}m,{whose}"),
    };
    argv.push(format!("--tmpfs={WORKSPACE}:{what},noexec,nosuid,nodev").into());
}

/// An option with a path at its end, of which the engine reads no comma and no quote as its own.
fn option(before: &str, path: &Path) -> Result<OsString, Error> {
    if path.to_str().is_none_or(|text| text.contains([',', '"', '=', ':'])) {
        let detail = "the data directory has a comma, a quote, `=` or `:` in its name, which container engines read as \
                      something else; give it another name";
        return Err(Error { retry_after_s: None, ..Error::new(Code::Unavailable, detail) });
    }
    let mut option = OsString::from(before);
    option.push(path);
    Ok(option)
}

/// What no process of this host may raise.
fn hard(resource: Resource) -> u64 {
    getrlimit(resource).maximum.unwrap_or(u64::MAX)
}

fn words(argv: &mut Vec<OsString>, words: &[&str]) {
    argv.extend(words.iter().map(OsString::from));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_skill_says_stands_behind_the_image_or_in_one_word_with_its_option() {
        let command = ["--privileged".to_owned(), "-v=/:/host".to_owned(), String::new(), "$(id)".to_owned()];
        let env = BTreeMap::from([("A".to_owned(), "--network=host\nx".to_owned())]);
        let plan = Plan {
            name: "n",
            label: "l",
            image: "image",
            command: &command,
            env: &env,
            has_args_variable: true,
            cpu_percent: 1,
            memory_mb: 64,
            backstop_s: 9,
            files: Files::Empty,
            seccomp: Path::new("/s.json"),
        };
        for kind in [Kind::Podman, Kind::Docker] {
            let argv = run(&Client::new(kind, None), &plan).unwrap();
            let image = argv.iter().position(|word| word == "image").unwrap();
            assert_eq!(argv[image + 1..], command.clone().map(OsString::from));
            let before: Vec<_> = argv[..image].iter().map(|word| word.to_str().unwrap()).collect();
            assert!(before.contains(&"--env=A=--network=host\nx") && before.contains(&"--cpus=0.01"), "{before:?}");
            assert!(before[1..].iter().all(|word| word.starts_with('-')), "{before:?}");
            assert_eq!(before.iter().filter(|word| word.starts_with("--network")).count(), 1);
        }
        let odd = Plan { seccomp: Path::new("/a,readonly=false"), ..plan };
        assert_eq!(run(&Client::new(Kind::Podman, None), &odd).unwrap_err().code, Code::Unavailable);
    }

    #[test]
    fn variables_that_would_be_something_else_to_an_engine_are_refused() {
        let sane = |name: &str, value: &str| require_sane_env([(&name.to_owned(), &value.to_owned())]);
        sane("_A1", "any=thing\n--x").unwrap();
        for (name, value) in
            [("", ""), ("A=B", ""), ("A*", ""), ("1A", ""), ("A\0", ""), ("A", "\0"), ("SKILL_ARGS", "")]
        {
            assert_eq!(sane(name, value).unwrap_err().code, Code::Malformed, "{name:?}");
        }
    }
}
