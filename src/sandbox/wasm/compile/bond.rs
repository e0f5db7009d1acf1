//! What ties a compile worker to its host.

use std::io;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};

/// Stack of the thread that watches, in bytes; all it does is wait.
const STACK: usize = 256 << 10;

/// Has this process die as soon as its host is gone: nobody would read what it finds, and the
/// next host needs the machine.
///
/// The pipe that is stdout tells: the host alone has its other end, which the system closes
/// whatever the host died of, and also if it died before this was called. The death signal of
/// `prctl` would miss the latter, and is sent at the end of the *thread* that started the worker,
/// of which a runtime may have enough while its process lives on.
///
/// # Errors
///
/// As the system gives them, if there can be no thread.
pub(super) fn end_with_the_host() -> io::Result<()> {
    std::thread::Builder::new().name("bond".into()).stack_size(STACK).spawn(|| {
        let stdout = io::stdout();
        // Asked for nothing, it wakes for an error alone: that nobody can read any more.
        while poll(&mut [PollFd::new(&stdout, PollFlags::empty())], None) == Err(Errno::INTR) {}
        let _ = kill_process(getpid(), Signal::KILL);
    })?;
    Ok(())
}
