//! `/problems/{code}`: what a problem's `type` points to.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::model::{Code, CodeRow, Error};

use super::problem::{Problem, title};
use super::read::Segment;

/// Explains a code
///
/// A small page for people: what the code means, its HTTP status, whether to try again.
#[utoipa::path(
    get, path = "/problems/{code}", tag = "host", security(()),
    params(("code" = String, Path, description = "A code, as in `code` of a problem")),
    responses((status = 200, description = "The page", body = String, content_type = "text/html")),
)]
pub(crate) async fn explain(Segment(name): Segment) -> Result<Response, Problem> {
    let code = Code::from_name(&name).ok_or_else(|| Error::not_found("code"))?;
    Ok(([(CONTENT_TYPE, "text/html; charset=utf-8")], page(&code.row())).into_response())
}

/// The page. Every word in it is from the table.
fn page(row: &CodeRow) -> String {
    let CodeRow { name, http, exit, .. } = row;
    let title = title(name);
    let meaning = row.meaning.replace('&', "&amp;").replace('<', "&lt;");
    let retry = if row.retry { "may succeed later" } else { "will not succeed without a change" };
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n\
         <h1>{title}</h1>\n<p>{meaning}\n<p>The same request {retry}.\n\
         <dl><dt>code<dd>{name}<dt>HTTP status<dd>{http}<dt>exit status of the command line<dd>{exit}</dl>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::Path;

    use crate::config::Environment;

    use super::*;

    const HEAD: &str = "\
# Error codes

Every failure has one code, the same word at every door: `code` of an HTTP problem
(`application/problem+json`, RFC 9457), `error.code` of an execution, and what the command
line prints. Match on the code; texts may change. Codes with HTTP 200 are ends of a run: the
request itself was carried out, and the execution says how it went.

*Again* says whether the same request may succeed later. The MCP column is what a tool call
shows there; the A2A column is what that door shows once it is open.

This page is made from the table in `src/model/code.rs`; a test keeps the two alike.

| code | HTTP | again | MCP | A2A | exit | meaning |
|---|---|---|---|---|---|---|
";

    fn errors_md() -> String {
        let mut text = String::from(HEAD);
        for CodeRow { name, http, retry, mcp, a2a, exit, meaning } in Code::ALL.iter().map(|code| code.row()) {
            let again = if retry { "yes" } else { "no" };
            let _ = writeln!(text, "| `{name}` | {http} | {again} | {mcp} | {a2a} | {exit} | {meaning} |");
        }
        text
    }

    /// To renew the file: `UPDATE=1 cargo test --lib problem_page`.
    #[test]
    fn the_documentation_of_the_codes_is_up_to_date() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/errors.md");
        if Environment::of_process().get("UPDATE").is_some() {
            std::fs::write(&file, errors_md()).unwrap();
        }
        let have = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(have, errors_md(), "UPDATE=1 cargo test --lib problem_page renews it");
    }

    #[test]
    fn a_page_has_no_markup_from_a_meaning() {
        let row = CodeRow { meaning: "a <b> & c", ..Code::Internal.row() };
        assert!(page(&row).contains("<p>a &lt;b> &amp; c\n"));
    }
}
