//! Refusing what is understood but has no effect yet: better than to ignore it.

use super::{Code, Error, FieldError};

/// A JSON pointer, and whether what stands there asks for more than the default.
pub type Asked = (&'static str, bool);

/// Refuses each place that asks for an effect which this version has not.
///
/// # Errors
///
/// `not_supported`, with every such place.
pub fn refuse_without_effect(asked: impl IntoIterator<Item = Asked>) -> Result<(), Error> {
    let detail = "this version does not have the effect of this yet; leave it out";
    let places = asked.into_iter().filter(|(_, asked)| *asked);
    let fields: Vec<_> = places.map(|(place, _)| FieldError::new(place, detail)).collect();
    if fields.is_empty() { Ok(()) } else { Err(Error::fields(Code::NotSupported, detail, fields)) }
}
