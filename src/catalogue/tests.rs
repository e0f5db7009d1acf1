use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::model::Code;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("skills")
}

#[test]
fn every_folder_of_the_repository_is_in_the_program() {
    let folders: BTreeSet<_> = folder::list(&repository()).unwrap().into_iter().map(|(name, _)| name).collect();
    let built: BTreeSet<SkillName> = builtin::SKILLS.iter().map(|(name, ..)| name.parse().unwrap()).collect();
    assert_eq!(folders, built);
}

#[test]
fn every_folder_has_the_name_and_the_version_that_its_front_matter_and_its_manifest_say() {
    for (name, skill_md, component) in builtin::SKILLS {
        let manifest = Manifest::of_skill_md((*skill_md).to_owned()).unwrap();
        let version = manifest.of_catalogue(&name.parse().unwrap()).unwrap();
        let front = skill_md.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n")).unwrap().0;
        assert!(front.lines().any(|line| line == format!("name: {name}")), "{name}: {front}");
        assert!(front.contains(&format!("version: \"{version}\"")), "{name}: {front}");
        let description = front.lines().find_map(|line| line.strip_prefix("description: ")).unwrap();
        // Limits of the Agent Skills specification.
        assert!((1..=1024).contains(&description.chars().count()), "{name}");
        assert!(!description.contains(['<', '>']) && !description.contains(": "), "{name}: {description}");
        let looked = look_into(component).unwrap();
        assert_eq!(looked.functions.len(), 1, "{name}");
    }
}

#[test]
fn an_own_folder_takes_the_place_of_a_built_in_one_also_if_it_is_broken() {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["hello", "other", "No-Name", ".git"] {
        std::fs::create_dir(dir.path().join(folder)).unwrap();
    }
    let with = |disabled| CatalogueSettings { disabled, dir: Some(dir.path().to_owned()) };
    let names = |settings: &CatalogueSettings| {
        let all = folders(settings).unwrap();
        all.iter().map(|(name, folder)| (name.to_string(), matches!(folder, Folder::Own(_)))).collect::<Vec<_>>()
    };
    let all = names(&with(Disabled::default()));
    assert!(all.contains(&("hello".into(), true)) && all.contains(&("other".into(), true)), "{all:?}");
    assert_eq!(all.iter().filter(|(name, _)| name == "hello").count(), 1);
    assert_eq!(names(&with(Disabled::All)), [("hello".into(), true), ("other".into(), true)]);
    let some = names(&with("hello,other".parse().unwrap()));
    assert!(some.iter().all(|(name, is_own)| name != "hello" && !is_own), "{some:?}");
    assert!(names(&CatalogueSettings::off()).is_empty());
    let gone = CatalogueSettings { disabled: Disabled::All, dir: Some(dir.path().join("gone")) };
    assert_eq!(folders(&gone).unwrap_err().code, Code::Unavailable);
}
