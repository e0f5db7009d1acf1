//! Which of a caller's header fields are sent.

use std::collections::BTreeMap;

use serde_json::Value;

/// Fields that belong to the connection, to the host, or to somebody who is known there.
const DROPPED: [&str; 17] = [
    "accept-encoding",
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// The fields that are sent, names in lower case. Values that are no text, number or truth value are
/// left out.
pub(crate) fn sendable(given: &BTreeMap<String, Value>) -> Vec<(String, String)> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        _ => None,
    };
    let named = given
        .iter()
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), text(value)));
    named
        .filter(|(name, _)| !DROPPED.contains(&name.as_str()))
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_who_somebody_is_or_belongs_to_the_connection_is_not_sent() {
        let given = serde_json::json!({
            "Accept": "text/plain", "X-Number": 7, "x-true": true, "x-null": null, "x-list": [1],
            "Authorization": "Bearer x", " cookie ": "a=b", "HOST": "inner", "Transfer-Encoding": "chunked",
        });
        let given = serde_json::from_value(given).unwrap();
        let sent = sendable(&given);
        let sent: Vec<_> = sent
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let mut wanted = [
            ("accept", "text/plain"),
            ("x-number", "7"),
            ("x-true", "true"),
        ];
        wanted.sort_unstable();
        let mut sent = sent;
        sent.sort_unstable();
        assert_eq!(sent, wanted);
    }
}
