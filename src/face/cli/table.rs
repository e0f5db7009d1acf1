//! Text tables and other forms of values for people.

use std::time::Duration;

use crate::model::steers;

/// Lays out rows under a header in columns that are as wide as their widest cell.
///
/// Control characters are taken out: names and descriptions come from others, and a
/// terminal would obey them.
pub(super) fn render(header: &[&str], rows: &[Vec<String>], widest: usize) -> String {
    let header: Vec<String> = header.iter().map(|title| (*title).to_owned()).collect();
    let cut = |row: &Vec<String>| row.iter().map(|cell| shorten(&one_line(cell), widest)).collect();
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(rows.iter().map(cut)).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// `text` in one line and without what a terminal would obey.
pub(super) fn one_line(text: &str) -> String {
    let seen = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c });
    seen.filter(|c| !steers(*c)).collect()
}

/// `text` without what a terminal would obey, but with its line ends and tabs.
pub(super) fn clean(text: &str) -> String {
    text.chars().filter(|c| matches!(c, '\n' | '\t') || !steers(*c)).collect()
}

/// At most `widest` characters.
fn shorten(text: &str, widest: usize) -> String {
    if text.chars().count() <= widest {
        return text.to_owned();
    }
    let kept: String = text.chars().take(widest.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// A number of bytes with a unit.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: &[&str] = &["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut tenths = u128::from(count) * 10 / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS.get(unit).copied().unwrap_or_default())
}

/// A time for people: `3.1 ms`, `2.50 s`, `3 min 20 s`.
pub(super) fn time(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    let whole_s = time.as_secs();
    match whole_s {
        0 if ms < 100.0 => format!("{ms:.1} ms"),
        0 => format!("{ms:.0} ms"),
        1..=59 => format!("{:.2} s", time.as_secs_f64()),
        60..=3599 => format!("{} min {} s", whole_s / 60, whole_s % 60),
        _ => format!("{} h {} min", whole_s / 3600, whole_s % 3600 / 60),
    }
}

/// `text` as one word of a POSIX shell.
pub(super) fn shell_word(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./@:=,+".contains(&b);
    if !text.is_empty() && text.bytes().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".into(), "1".into()], vec!["long-name".into(), "x\n\u{1b}[31my".into()]];
        insta::assert_snapshot!(render(&["NAME", "N"], &rows, 60), @r"
        NAME       N
        a          1
        long-name  x [31my
        ");
    }

    #[test]
    fn long_cells_are_shortened() {
        assert_eq!(shorten("abcdef", 4), "abc…");
        assert_eq!(shorten("abcd", 4), "abcd");
    }

    #[test]
    fn sizes_and_times_read_well() {
        assert_eq!([bytes(0), bytes(1023), bytes(1536), bytes(64 << 20)], ["0 B", "1023 B", "1.5 KiB", "64.0 MiB"]);
        assert_eq!(bytes(u64::MAX), "15.9 EiB");
        let times = [3, 350, 2500, 200_000, 7_300_000].map(|ms| time(Duration::from_millis(ms)));
        assert_eq!(times, ["3.0 ms", "350 ms", "2.50 s", "3 min 20 s", "2 h 1 min"]);
    }

    #[test]
    fn words_for_the_shell_are_quoted_where_they_must_be() {
        assert_eq!(shell_word("hello@1.0.0"), "hello@1.0.0");
        assert_eq!(shell_word("it's $x"), r"'it'\''s $x'");
        assert_eq!(shell_word(""), "''");
    }
}
