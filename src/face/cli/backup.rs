//! `skillvisor backup` and `skillvisor restore`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use indicatif::ProgressBar;
use serde_json::json;

use crate::host::{self, BackedUp, CopyProgress, Restored};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::table;

/// Copy the data directory of this machine, also while a server runs on it
///
/// The copy has every run that was answered before, all skills with their components, and all owners'
/// files. It is written beside its place and gets its name when it is whole. The keys in the data
/// directory are left out: with the key for secrets, who finds the copy has the secrets.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor backup /backups/skillvisor-2026-12-01
  skillvisor backup --data-dir /var/lib/skillvisor /mnt/usb/skillvisor --with-keys --json")]
pub(super) struct BackupArgs {
    /// Directory to make; nothing may be there
    #[arg(value_name = "DEST")]
    to: PathBuf,
    /// Copy secrets.key, admin.key and mcp.key too
    #[arg(long)]
    with_keys: bool,
}

/// Bring a backup back into an empty data directory
///
/// Every file is compared with what the backup says of it and the database is looked through before a
/// server can start. What is not whole or damaged is refused, and nothing of it is left. Without
/// admin.key in the backup, a new admin key is made for commands on this machine.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor restore /backups/skillvisor-2026-12-01 --data-dir /var/lib/skillvisor")]
pub(super) struct RestoreArgs {
    /// The backup
    #[arg(value_name = "SRC")]
    from: PathBuf,
}

pub(super) async fn back_up(context: &Context, args: BackupArgs) -> Result<Exit, Failure> {
    let data_dir = data_dir(context, "backup")?;
    let bar = context.output.bar(0).with_message("copying");
    let shown = bar.clone();
    let work = move || host::back_up(&data_dir, &args.to, args.with_keys, &mut |progress| show(&shown, progress));
    let done = tokio::task::spawn_blocking(work).await.map_err(|error| Failure::internal(error.to_string()))?;
    bar.finish_and_clear();
    let BackedUp { path, files, bytes, schema, created_at, left_out, skipped } = done?;
    let output = context.output;
    if output.json {
        output
            .json(&json!({ "path": path, "files": files, "bytes": bytes, "schema": schema, "createdAt": created_at,
            "leftOut": left_out, "skipped": skipped }))?;
        return Ok(Exit::Success);
    }
    output.line(&format!(
        "{}: {files} files, {}",
        table::one_line(&path.display().to_string()),
        table::bytes(bytes)
    ))?;
    if !left_out.is_empty() {
        let names = left_out.join(", ");
        output.note(&format!(
            "left out: {names}; keep them elsewhere, or add --with-keys. Without secrets.key no secret can be opened."
        ));
    }
    if skipped > 0 {
        output.note(&format!("skipped: {skipped} links and the like among owners' files, which are no files"));
    }
    Ok(Exit::Success)
}

pub(super) async fn restore(context: &Context, args: &RestoreArgs) -> Result<Exit, Failure> {
    let data_dir = data_dir(context, "restore")?;
    let bar = context.output.bar(0).with_message("copying");
    let shown = bar.clone();
    let done = host::restore(&args.from, &data_dir, move |progress| show(&shown, progress)).await;
    bar.finish_and_clear();
    let Restored { files, bytes, created_at, version, new_admin_key, lacks_secrets_key } = done?;
    let output = context.output;
    if output.json {
        output.json(&json!({ "dataDir": data_dir, "files": files, "bytes": bytes, "createdAt": created_at,
            "version": version, "newAdminKey": new_admin_key, "lacksSecretsKey": lacks_secrets_key }))?;
        return Ok(Exit::Success);
    }
    let place = table::one_line(&data_dir.display().to_string());
    output.line(&format!("{place}: {files} files, {}, as of {created_at}", table::bytes(bytes)))?;
    if new_admin_key {
        output.note("made a new admin key for commands on this machine: admin.key");
    }
    if lacks_secrets_key {
        output
            .note("put secrets.key into the data directory, or set secrets.key_file: without it no server starts here");
    }
    Ok(Exit::Success)
}

fn data_dir(context: &Context, command: &str) -> Result<PathBuf, Failure> {
    context.environment.check_names()?;
    if context.given_url().is_some() {
        let detail = format!("{command} works on a data directory of this machine, and on no server");
        return Err(Failure::usage(detail).hint("run it where the server runs, as the server's user, without --url"));
    }
    Ok(context.settings(&BTreeMap::new())?.data_dir)
}

fn show(bar: &ProgressBar, progress: CopyProgress) {
    match progress {
        CopyProgress::Found(bytes) => bar.inc_length(bytes),
        CopyProgress::Copied(bytes) => bar.inc(bytes),
    }
}
