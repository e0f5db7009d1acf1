//! A host for the cases alone.

use std::path::{Path, PathBuf};

use crate::access::NewKey;
use crate::catalogue::CatalogueSettings;
use crate::files;
use crate::host::{Host, HostOptions};
use crate::model::{Caller, Digest, Error, ExecutionRequest, OwnerId, Scope, SkillState, StrictJson};
use crate::registry::Manifest;
use crate::sandbox::THIS_PROGRAM;

use super::super::exit::{Exit, Failure};
use super::super::folder::Folder;
use super::case::{Case, Told};

/// How long the skill may take to be compiled, in looks at it.
const LOOKS: usize = 6000;
const BREAK: std::time::Duration = std::time::Duration::from_millis(50);

/// A directory that is gone again at the end.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A host with one skill, in a directory of its own.
pub(super) struct Scratch {
    host: Host,
    admin: Caller,
    directory: Directory,
    /// The skill as `name@version`.
    pub(super) address: String,
}

impl Scratch {
    /// Opens a host and registers the skill of a folder there.
    pub(super) async fn open(folder: &Folder) -> Result<Self, Failure> {
        let directory = Directory(std::env::temp_dir().join(format!("skillvisor-test-{}", uuid::Uuid::now_v7())));
        files::create_private_directory(&directory.0)
            .map_err(|error| Failure::internal(format!("no directory can be made for the cases: {error}")))?;
        let mut options = HostOptions::new(directory.0.join("data"), THIS_PROGRAM);
        options.catalogue = CatalogueSettings::off();
        let host = Host::open(options).await?;
        let admin = host.admin()?;
        let component =
            std::fs::read(&folder.component).map_err(|error| Failure::unreadable(&folder.component, &error))?;
        let manifest = Manifest::of_skill_md(folder.text.clone())?;
        // For every owner to run.
        let manifest = Manifest { owner: Some(OwnerId::system()), ..manifest };
        let registered = host.register(&admin, manifest, component).await?;
        let skill = &registered.skill().skill;
        let scratch = Self { admin, directory, address: skill.address(), host };
        scratch.compiled().await?;
        Ok(scratch)
    }

    /// Waits for the compiler, so that no case has to.
    async fn compiled(&self) -> Result<(), Failure> {
        for _ in 0..LOOKS {
            let skill = self.host.get(&self.admin, &self.address.parse()?)?;
            match skill.skill.state {
                SkillState::Ready => return Ok(()),
                SkillState::Compiling => tokio::time::sleep(BREAK).await,
                SkillState::Failed | SkillState::Unavailable => {
                    let problem = skill.skill.problem.clone().unwrap_or_default();
                    let detail = format!("{} cannot run: {problem}", self.address);
                    return Err(Failure::new(Exit::Invalid, "invalid_component", detail));
                }
            }
        }
        Err(Failure::new(Exit::Busy, "compiling", format!("{} is still being compiled", self.address)))
    }

    /// Runs one case as an owner of its own.
    pub(super) async fn run(&self, case: &Case, number: usize) -> Result<Told, Failure> {
        let owner: OwnerId = format!("case-{number}").parse()?;
        let new = NewKey {
            name: format!("case {number}"),
            owner: Some(owner.clone()),
            scopes: vec![Scope::SkillsRead, Scope::SkillsExecute],
            ceilings: case.ceilings.clone(),
            ..NewKey::default()
        };
        let (_, secret) = self.host.access.create(&self.admin, new).await?;
        let caller = self.host.caller(&secret)?;
        // Before anybody has counted what lies there.
        let workspace = self.workspace(&owner)?;
        put(&workspace, case).map_err(|error| Failure::internal(format!("the case's files: {error}")))?;
        let args = StrictJson::from(case.args.clone());
        let request = ExecutionRequest::new(self.address.parse()?, args);
        let (problem, duration_ms) = match self.host.execute(caller, request).await {
            Ok(execution) => (case.problem_of_run(&execution), execution.duration_us.unwrap_or(0) as f64 / 1000.0),
            Err(error) => (case.problem_of_refusal(&error), 0.0),
        };
        let problem = problem.or_else(|| case.problem_of_files(&workspace));
        Ok(Told { file: case.file.clone(), name: case.name.clone(), problem, duration_ms })
    }

    /// The directory of an owner's files.
    fn workspace(&self, owner: &OwnerId) -> Result<PathBuf, Failure> {
        self.host.workspaces.of(owner).map_err(|error| Failure::from(Error::internal(error)))?;
        let name = Digest::of(owner.as_str().as_bytes()).hex();
        Ok(self.directory.0.join("data/workspaces").join(name))
    }

    /// Closes the host and removes what it kept.
    pub(super) async fn close(self) {
        self.host.close().await;
    }
}

fn put(workspace: &Path, case: &Case) -> std::io::Result<()> {
    for (path, text) in &case.files {
        let file = workspace.join(path);
        file.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::write(file, text)?;
    }
    Ok(())
}
