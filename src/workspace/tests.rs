use std::path::Path;

use rustix::io::Errno;
use tempfile::TempDir;

use super::*;

const QUOTA: Quota = Quota { bytes: 1000, files: 5 };
const WRITE: How = How { read: true, write: true, create: true, exclusive: false, truncate: false, directory: false };

fn workspaces(dir: &Path) -> Workspaces {
    let temporary = dir.join("tmp");
    files::create_private_directory(&temporary).unwrap();
    Workspaces::open(dir.join("workspaces"), temporary, QUOTA).unwrap()
}

fn space() -> (TempDir, Arc<Space>) {
    let dir = tempfile::tempdir().unwrap();
    let space = workspaces(dir.path()).of(&"a".parse().unwrap()).unwrap();
    (dir, space)
}

fn path(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

fn file(opened: Opened) -> Arc<File> {
    match opened {
        Opened::File(file) => file,
        Opened::Directory(_) => panic!("a directory"),
    }
}

#[tokio::test]
async fn every_change_is_counted_and_so_is_a_count_from_the_start() {
    let (dir, space) = space();
    let root = space.root().try_clone().unwrap();
    let changes = move |alone: &Alone<'_>| {
        let a = file(alone.open(&root, &path("a"), WRITE, QUOTA)?);
        alone.write(&a, &[1; 300], None, QUOTA)?;
        alone.write(&a, &[2; 100], Some(250), QUOTA)?;
        alone.create_directory(&root, &path("d"), QUOTA)?;
        let b = file(alone.open(&root, &path("d/b"), WRITE, QUOTA)?);
        alone.set_size(&b, 500, QUOTA)?;
        alone.set_size(&b, 200, QUOTA)?;
        drop(b);
        alone.rename((&root, &path("d/b")), (&root, &path("c")))?;
        let c = file(alone.open(&root, &path("c"), How { truncate: true, ..WRITE }, QUOTA)?);
        alone.write(&c, &[3; 50], Some(10), QUOTA)?;
        alone.remove_directory(&root, &path("d"))
    };
    space.alone(changes).await.unwrap();
    assert_eq!(space.usage(), (350 + 60, 2));
    let again = workspaces(dir.path()).of(&"a".parse().unwrap()).unwrap();
    again.alone(|_| Ok(())).await.unwrap();
    assert_eq!(again.usage(), space.usage());
}

#[tokio::test]
async fn a_write_that_does_not_fit_changes_nothing() {
    let (_dir, space) = space();
    let root = space.root().try_clone().unwrap();
    let work = move |alone: &Alone<'_>| {
        let a = file(alone.open(&root, &path("a"), WRITE, QUOTA)?);
        alone.write(&a, &[0; 900], None, QUOTA)?;
        let full = |result: io::Result<()>| Errno::from_io_error(&result.unwrap_err());
        assert_eq!(full(alone.write(&a, &[0; 101], None, QUOTA)), Some(Errno::NOSPC));
        assert_eq!(full(alone.write(&a, &[0; 1], Some(u64::MAX), QUOTA)), Some(Errno::FBIG));
        assert_eq!(full(alone.set_size(&a, 1001, QUOTA)), Some(Errno::NOSPC));
        assert_eq!(a.metadata()?.len(), 900);
        alone.write(&a, &[0; 100], None, QUOTA)
    };
    space.alone(work).await.unwrap();
    assert_eq!(space.usage(), (1000, 1));
}

#[tokio::test]
async fn a_removed_file_counts_until_the_last_who_has_it_open_is_gone() {
    let (_dir, space) = space();
    let root = space.root().try_clone().unwrap();
    let other = root.try_clone().unwrap();
    let open = move |alone: &Alone<'_>| {
        let a = file(alone.open(&root, &path("a"), WRITE, QUOTA)?);
        alone.write(&a, &[0; 600], None, QUOTA)?;
        alone.remove_file(&root, &path("a"))?;
        alone.write(&a, &[0; 100], None, QUOTA)?;
        Ok(a)
    };
    let held = space.alone(open).await.unwrap();
    assert_eq!(space.usage(), (700, 0));
    let fill = move |alone: &Alone<'_>| {
        let b = file(alone.open(&other, &path("b"), WRITE, QUOTA)?);
        assert!(alone.write(&b, &[0; 400], None, QUOTA).is_err());
        drop(held);
        alone.write(&b, &[0; 1000], None, QUOTA)
    };
    space.alone(fill).await.unwrap();
    assert_eq!(space.usage(), (1000, 1));
}

#[tokio::test]
async fn a_file_that_comes_in_counts_from_its_first_byte_and_not_at_all_if_it_never_ends() {
    let (dir, space) = space();
    let mut incoming = Incoming::begin(Arc::clone(&space), QUOTA).await.unwrap();
    incoming.write(&[0; 700]).await.unwrap();
    assert!(incoming.write(&[0; 400]).await.is_err());
    assert_eq!(space.usage().0, 700);
    drop(incoming);
    assert_eq!((space.usage().0, std::fs::read_dir(dir.path().join("tmp")).unwrap().count()), (0, 0));
    for (bytes, is_new) in [(400, true), (500, false)] {
        let mut incoming = Incoming::begin(Arc::clone(&space), QUOTA).await.unwrap();
        incoming.write(&vec![0; bytes]).await.unwrap();
        assert_eq!(incoming.place(path("d/a")).await.unwrap().1, is_new);
        assert_eq!(space.usage(), (bytes as u64, 2));
    }
}

#[tokio::test]
async fn a_pipe_that_somebody_left_there_makes_nobody_wait() {
    let (_dir, space) = space();
    rustix::fs::mknodat(space.root(), "pipe", rustix::fs::FileType::Fifo, at::FILE_MODE, 0).unwrap();
    let root = space.root().try_clone().unwrap();
    let opened =
        space.alone(move |alone| alone.open(&root, &path("pipe"), How { read: true, ..How::default() }, QUOTA));
    assert_eq!(Errno::from_io_error(&opened.await.unwrap_err()), Some(Errno::PERM));
}
