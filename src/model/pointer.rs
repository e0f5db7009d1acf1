//! JSON pointers (RFC 6901).

/// A name as one segment of a pointer.
pub fn pointer_segment(name: &str) -> String {
    pointer_below("", name).split_off(1)
}

/// `pointer` with one more segment.
pub fn pointer_below(pointer: &str, segment: &str) -> String {
    let mut below = String::with_capacity(pointer.len() + segment.len() + 1);
    below.push_str(pointer);
    below.push('/');
    for c in segment.chars() {
        match c {
            '~' => below.push_str("~0"),
            '/' => below.push_str("~1"),
            c => below.push(c),
        }
    }
    below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_a_segment_or_begin_an_escape_is_escaped() {
        assert_eq!((pointer_segment("a/b~c").as_str(), pointer_segment("").as_str()), ("a~1b~0c", ""));
        assert_eq!(pointer_below("/x", "a/b"), "/x/a~1b");
    }
}
