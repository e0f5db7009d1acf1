//! What somebody probably meant.

/// The one of `known` that is closest to `asked`.
pub fn nearest<'a>(asked: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known.into_iter().min_by_key(|name| distance(asked, name))
}

/// How many letters must be added, taken out, replaced or swapped with their neighbour.
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    for (row, &have) in from.iter().enumerate() {
        let mut line = vec![row + 1];
        for (column, &want) in to.iter().enumerate() {
            let replaced = above[column] + usize::from(have != want);
            let mut best = replaced.min(above[column + 1] + 1).min(line[column] + 1);
            let swapped = row > 0 && column > 0 && have == to[column - 1] && from[row - 1] == want;
            if swapped {
                best = best.min(before[column - 1] + 1);
            }
            line.push(best);
        }
        before = std::mem::replace(&mut above, line);
    }
    above[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_single_mistakes() {
        for (from, to, steps) in [
            ("", "", 0),
            ("a", "", 1),
            ("", "ab", 2),
            ("listen", "listne", 1),
            ("abc", "axc", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(from, to), steps, "{from} {to}");
        }
    }

    #[test]
    fn the_closest_name_is_found() {
        let known = ["listen", "data_dir", "upload.max_bytes"];
        assert_eq!(nearest("lisen", known), Some("listen"));
        assert_eq!(nearest("upload.maxbytes", known), Some("upload.max_bytes"));
        assert_eq!(nearest("x", []), None);
    }
}
