//! What a registry wants to see first (RFC 9110, section 11.6.1).

/// A challenge of `WWW-Authenticate` that we can answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// Name and password.
    Basic,
    /// A token, which is to be had at `realm`.
    Bearer { realm: String, service: Option<String> },
}

impl Challenge {
    /// Reads the header.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service) = (None, None);
        let mut rest = rest;
        while let Some((name, value, after)) = parameter(rest) {
            match name.to_ascii_lowercase().as_str() {
                "realm" => realm = Some(value),
                "service" => service = Some(value),
                _ => {}
            }
            rest = after;
        }
        realm.map(|realm| Self::Bearer { realm, service })
    }
}

/// The first parameter, and what stands behind it.
fn parameter(text: &str) -> Option<(&str, String, &str)> {
    let (name, rest) = text.trim_start_matches([' ', ',', '\t']).split_once('=')?;
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find([',', ' ']).unwrap_or(rest.len());
        return Some((name.trim(), rest[..end].to_owned(), &rest[end..]));
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((name.trim(), value, &quoted[at + 1..])),
            '\\' => value.push(letters.next()?.1),
            letter => value.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer { realm: realm.into(), service: service.map(str::to_owned) })
        };
        let read = Challenge::parse;
        assert_eq!(
            read(
                r#"Bearer realm="https://auth.example/token",service="registry.example",scope="repository:a/b:pull,push""#
            ),
            bearer("https://auth.example/token", Some("registry.example"))
        );
        assert_eq!(read(r#"bearer service=x, realm="a\"b" "#), bearer("a\"b", Some("x")));
        assert_eq!(read("Bearer realm=https://a/t"), bearer("https://a/t", None));
        assert_eq!(read(r#"Basic realm="Registry""#), Some(Challenge::Basic));
        for bad in ["", "Negotiate", "Bearer", "Bearer service=\"x\"", "Bearer realm=\"never ends"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
