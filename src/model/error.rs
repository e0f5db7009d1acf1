//! Why a request could not be carried out.

use std::fmt;

use super::{Code, plain, steers};

/// Longest [`Error::detail`], in bytes. Libraries quote what they could not read, whole.
pub const MAX_DETAIL: usize = 2000;

/// The cause behind an [`Error`], kept for the log.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a request did not become a run, or what an operation ended with.
///
/// `detail` is safe to show to whoever asked: it names no secret and no path of the host.
/// `source` is for the log only.
pub struct Error {
    /// The stable name of the failure.
    pub code: Code,
    /// One sentence that says what is wrong and, where possible, how to mend it. At most
    /// [`MAX_DETAIL`] bytes and without control characters.
    pub detail: String,
    /// Each place in the input that is wrong.
    pub fields: Vec<FieldError>,
    /// Seconds after which trying again makes sense.
    pub retry_after_s: Option<u32>,
    /// What happened underneath.
    pub source: Option<BoxError>,
}

/// One wrong place in the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// JSON pointer (RFC 6901) to the place; empty for the whole input.
    pub pointer: String,
    /// What is wrong there.
    pub detail: String,
}

impl FieldError {
    /// A failure at `pointer`.
    pub fn new(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), detail: readable(detail.into()) }
    }
}

impl Error {
    /// An error with this code and text.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let retry_after_s = code.row().retry.then_some(1);
        Self { code, detail: readable(detail.into()), fields: Vec::new(), retry_after_s, source: None }
    }

    /// An error about one place in the input.
    pub fn at(code: Code, pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        let mut error = Self::new(code, detail.clone());
        error.fields.push(FieldError::new(pointer, detail));
        error
    }

    /// An error about several places in the input.
    pub fn fields(code: Code, detail: impl Into<String>, fields: Vec<FieldError>) -> Self {
        Self { fields, ..Self::new(code, detail) }
    }

    /// A bug or a broken machine. The caller learns only that; the log learns `source`.
    pub fn internal(source: impl Into<BoxError>) -> Self {
        let detail = "something broke inside the host; its log says what";
        Self { source: Some(source.into()), ..Self::new(Code::Internal, detail) }
    }

    /// What nobody may tell apart from something that is another owner's.
    pub fn not_found(what: &str) -> Self {
        Self::new(Code::NotFound, format!("no such {what}"))
    }

    /// The same error with its places moved below `prefix`, a JSON pointer.
    #[must_use]
    pub fn below(mut self, prefix: &str) -> Self {
        for field in &mut self.fields {
            field.pointer.insert_str(0, prefix);
        }
        self
    }

    /// The same error for another one who waits; the log has its cause once.
    #[must_use]
    pub fn again(&self) -> Self {
        let Self { code, detail, fields, retry_after_s, source: _ } = self;
        let (detail, fields) = (detail.clone(), fields.clone());
        Self { code: *code, detail, fields, retry_after_s: *retry_after_s, source: None }
    }

    /// The same error, worth trying again after `seconds`.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }
}

/// `detail`, fit to be logged and sent back whatever it quotes.
fn readable(detail: String) -> String {
    let fits = detail.len() <= MAX_DETAIL && !detail.contains(steers);
    if fits { detail } else { plain(&detail.replace('\n', "; "), MAX_DETAIL) }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.detail)?;
        for field in &self.fields {
            write!(f, "; {:?}: {}", field.pointer, field.detail)?;
        }
        self.source.as_ref().map_or(Ok(()), |source| write!(f, " ({source:?})"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source.as_ref() as _)
    }
}
