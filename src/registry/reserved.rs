//! Names that skills may not have, because the interface uses them itself.

use crate::model::{Code, Error, SkillName};

/// Routes below `/api/skills`, and management tools.
const RESERVED: &[&str] = &[
    "aliases",
    "approve",
    "diff",
    "executions",
    "install",
    "latest",
    "run-script",
    "skills-enable",
    "skills-execute",
    "skills-executions",
    "skills-list",
    "skillssh",
    "tools",
    "versions",
];

/// Refuses a reserved name.
pub(super) fn require_free(name: &SkillName) -> Result<(), Error> {
    if RESERVED.contains(&name.as_str()) {
        let detail = format!("`{name}` is a word of the interface itself; choose another name");
        return Err(Error::at(Code::ReservedName, "/name", detail));
    }
    Ok(())
}
