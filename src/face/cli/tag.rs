//! `skillvisor tag`.

use reqwest::Method;
use serde_json::{Value, json};

use super::client::Client;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::value;

/// Add and remove labels of a skill, or show them
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor tag weather@1.2.0 --add geo --remove draft
  skillvisor tag weather@1.2.0 --clear")]
pub(super) struct TagArgs {
    /// The skill: NAME, NAME@VERSION, or its id
    #[arg(value_name = "REF")]
    reference: String,
    /// A label to add; may be given more than once
    #[arg(long, value_name = "TAG")]
    add: Vec<String>,
    /// A label to remove; may be given more than once
    #[arg(long, value_name = "TAG")]
    remove: Vec<String>,
    /// Remove all others
    #[arg(long, conflicts_with = "remove")]
    clear: bool,
}

pub(super) async fn run(output: Output, client: &Client, args: &TagArgs) -> Result<Exit, Failure> {
    let mut reply = client.get(&["api", "skills", &args.reference], &[]).await?;
    if args.clear || !args.add.is_empty() || !args.remove.is_empty() {
        let skill = reply.json()?;
        let tags = changed(value::texts(&skill, "tags"), args);
        // By its id: a name may mean another version by now.
        let path = ["api", "skills", &value::text(&skill, "id")];
        reply = client.send_json(Method::PATCH, &path, json!({ "tags": tags }).to_string()).await?;
    }
    if output.json {
        output.json_text(&reply.text)?;
    } else {
        output.note(&told(&reply.json()?));
    }
    Ok(Exit::Success)
}

fn changed(mut tags: Vec<String>, args: &TagArgs) -> Vec<String> {
    tags.retain(|tag| !args.clear && !args.remove.contains(tag));
    for tag in &args.add {
        if !tags.contains(tag) {
            tags.push(tag.clone());
        }
    }
    tags
}

fn told(skill: &Value) -> String {
    let (address, tags) = (value::address(skill), value::texts(skill, "tags"));
    if tags.is_empty() { format!("{address} has no tags") } else { format!("{address}: {}", tags.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_added_once_and_removed_and_the_rest_stays() {
        let args = |add: &[&str], remove: &[&str], clear| {
            let owned = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect();
            TagArgs { reference: "a".into(), add: owned(add), remove: owned(remove), clear }
        };
        let tags = || vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(changed(tags(), &args(&["b", "c"], &["a"], false)), ["b", "c"]);
        assert_eq!(changed(tags(), &args(&["z"], &[], true)), ["z"]);
    }
}
