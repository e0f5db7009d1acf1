//! Deletes a file of the workspace, or a folder, with all that lies in it if that is asked for.

wit_bindgen::generate!({ path: "../../../wit", world: "skill" });

use serde::{Deserialize, Serialize};
use skill_files::{FilePath, Kind, Refusal, Workspace, is_restricted};

/// What the caller sends.
#[derive(Deserialize)]
struct Args {
    path: String,
    #[serde(default)]
    recursive: bool,
}

/// What the caller gets.
#[derive(Serialize)]
struct Answer {
    success: bool,
    path: String,
    kind: &'static str,
    deleted: usize,
}

fn delete(args: &Args) -> Result<Answer, Refusal> {
    let path = FilePath::file(&args.path)?;
    let workspace = Workspace::open()?;
    let kind = workspace.stat(&path)?.kind;
    let deleted = match (kind, args.recursive) {
        (Kind::Folder, true) => delete_all(&workspace, &path)?,
        (Kind::Folder, false) => workspace.remove_folder(&path).map(|()| 1)?,
        _ => workspace.remove_file(&path).map(|()| 1)?,
    };
    Ok(Answer {
        success: true,
        path: path.as_str().to_owned(),
        kind: kind.as_str(),
        deleted,
    })
}

/// Deletes a folder and what is in it, once it is known that all of that may go.
fn delete_all(workspace: &Workspace, path: &FilePath) -> Result<usize, Refusal> {
    let (mut files, mut folders) = (Vec::new(), vec![path.clone()]);
    let mut looked_at = 0;
    while let Some(folder) = folders.get(looked_at).cloned() {
        looked_at += 1;
        for entry in workspace.list(&folder)? {
            let below = folder.join(&entry.name);
            if is_restricted(&entry.name) {
                let why = format!("`{}` is restricted, so nothing is deleted", below.as_str());
                return Err(Refusal::new("restricted-path", why));
            }
            if entry.kind == Kind::Folder {
                folders.push(below);
            } else {
                files.push(below);
            }
        }
    }
    for file in &files {
        workspace.remove_file(file)?;
    }
    // What lies deeper was found later.
    for folder in folders.iter().rev() {
        workspace.remove_folder(folder)?;
    }
    Ok(files.len() + folders.len())
}

struct Skill;

impl Guest for Skill {
    fn run(args: String) -> Result<String, SkillError> {
        let args = serde_json::from_str(&args)
            .map_err(|error| said(Refusal::new("bad-args", error.to_string())))?;
        let answer = delete(&args).map_err(said)?;
        serde_json::to_string(&answer)
            .map_err(|error| said(Refusal::new("bad-answer", error.to_string())))
    }
}

fn said(refusal: Refusal) -> SkillError {
    SkillError {
        code: refusal.code.into(),
        message: refusal.message,
    }
}

export!(Skill);
