//! Lists a folder of the workspace, with what lies below it if that is asked for.

wit_bindgen::generate!({ path: "../../../wit", world: "skill" });

use serde::{Deserialize, Serialize};
use skill_files::{FilePath, Kind, Refusal, Workspace, is_restricted};

/// Entries that are listed where nothing is said, and at most.
const DEFAULT: usize = 1000;
const MOST: usize = 5000;

/// What the caller sends.
#[derive(Deserialize)]
struct Args {
    #[serde(default)]
    path: String,
    #[serde(default)]
    recursive: bool,
    limit: Option<usize>,
}

/// What the caller gets.
#[derive(Serialize)]
struct Answer {
    success: bool,
    path: String,
    entries: Vec<Listed>,
    truncated: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    path: String,
    kind: &'static str,
    size: u64,
    modified_at: Option<String>,
}

fn list(args: &Args) -> Result<Answer, Refusal> {
    let path = FilePath::folder(&args.path)?;
    let most = args.limit.filter(|limit| *limit > 0).unwrap_or(DEFAULT);
    let most = most.min(MOST);
    let workspace = Workspace::open()?;
    let (mut found, mut folders) = (Vec::new(), vec![path.clone()]);
    let mut truncated = false;
    while let Some(folder) = folders.pop().filter(|_| found.len() <= most) {
        let mut entries = workspace.list(&folder)?;
        entries.retain(|entry| !is_restricted(&entry.name));
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in entries {
            // One more than there is room for says that there are more.
            if found.len() > most {
                break;
            }
            let path = folder.join(&entry.name);
            if args.recursive && entry.kind == Kind::Folder {
                folders.push(path.clone());
            }
            found.push(path);
        }
    }
    found.sort();
    if found.len() > most {
        truncated = true;
        found.truncate(most);
    }
    let listed = found
        .iter()
        .filter_map(|path| listed(&workspace, path))
        .collect();
    Ok(Answer {
        success: true,
        path: path.as_str().to_owned(),
        entries: listed,
        truncated,
    })
}

/// What is known of an entry, unless somebody has removed it meanwhile.
fn listed(workspace: &Workspace, path: &FilePath) -> Option<Listed> {
    let stat = workspace.stat(path).ok()?;
    Some(Listed {
        path: path.as_str().to_owned(),
        kind: stat.kind.as_str(),
        size: if stat.kind == Kind::File {
            stat.size
        } else {
            0
        },
        modified_at: stat.modified_at,
    })
}

struct Skill;

impl Guest for Skill {
    fn run(args: String) -> Result<String, SkillError> {
        let args = serde_json::from_str(&args)
            .map_err(|error| said(Refusal::new("bad-args", error.to_string())))?;
        let answer = list(&args).map_err(said)?;
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
