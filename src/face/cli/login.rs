//! Who a source or a registry is told that somebody is. A password comes from stdin or from
//! somebody who types it, and never from an argument.

use std::io::{IsTerminal, Read};

use zeroize::Zeroizing;

use crate::sources::Login;

use super::exit::Failure;

/// Longest password, in bytes. Tokens of clouds are long.
const MAX_PASSWORD: usize = 8 << 10;

#[derive(clap::Args, Debug, Default)]
pub(super) struct LoginArgs {
    /// Name at the source; its password is read from the terminal, or with --password-stdin
    #[arg(long, value_name = "NAME")]
    pub(super) username: Option<String>,
    /// Read the password or token from stdin
    #[arg(long, requires = "username")]
    password_stdin: bool,
}

impl LoginArgs {
    /// The name and the password, if there is a name.
    pub(super) async fn read(&self) -> Result<Option<(String, Zeroizing<String>)>, Failure> {
        let Some(username) = self.username.clone() else { return Ok(None) };
        let from_stdin = self.password_stdin;
        let read = tokio::task::spawn_blocking(move || password(from_stdin)).await;
        let password = read.map_err(|error| Failure::internal(error.to_string()))??;
        Ok(Some((username, password)))
    }

    /// The same, to be used by ourselves.
    pub(super) async fn login(&self) -> Result<Option<Login>, Failure> {
        let read = self.read().await?;
        let login = read.map(|(username, password)| Login::new(&username, &password)).transpose();
        login.map_err(|error| Failure::usage(format!("name or password: {}", error.detail)))
    }
}

fn password(from_stdin: bool) -> Result<Zeroizing<String>, Failure> {
    if !from_stdin {
        if !std::io::stdin().is_terminal() {
            return Err(Failure::usage("the password is missing; give it on stdin with --password-stdin"));
        }
        let typed = rpassword::prompt_password("Password (not shown): ").map(Zeroizing::new);
        return typed.map_err(|error| Failure::usage(format!("cannot read from the terminal: {error}")));
    }
    // As large as it gets, so that growing leaves no copies behind.
    let mut text = Zeroizing::new(String::with_capacity(MAX_PASSWORD + 3));
    let read = std::io::stdin().lock().take(MAX_PASSWORD as u64 + 3).read_to_string(&mut text);
    read.map_err(|error| Failure::usage(format!("cannot read the password from stdin: {error}")))?;
    Ok(Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned()))
}
