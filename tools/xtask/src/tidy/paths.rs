//! The paths that a file's code names: in its `use` statements, and elsewhere from `crate::` and `super::`.

/// The paths that the `use` statements of code without comments import.
pub(super) fn imports(code: &str) -> Vec<Vec<String>> {
    statements(code).iter().filter_map(|line| use_tree(line)).flat_map(paths).collect()
}

/// The paths that begin with `crate::` or `super::`, wherever they stand.
pub(super) fn named(code: &str) -> Vec<Vec<String>> {
    let is_start = |at: usize, line: &str| {
        line[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric() && before != ':')
    };
    let mut named = Vec::new();
    for line in statements(code) {
        for start in ["crate::", "super::"] {
            let places = line.match_indices(start).filter(|(at, _)| is_start(*at, &line));
            named.extend(places.flat_map(|(at, _)| paths(&line[at..])));
        }
    }
    named
}

/// The tree of a statement that is a `use`.
fn use_tree(statement: &str) -> Option<&str> {
    let (before, tree) = statement.split_once("use ")?;
    (before.is_empty() || (before.starts_with("pub") && !before.trim().contains(' '))).then_some(tree)
}

/// The text in pieces that end with `;`, on one line each.
fn statements(text: &str) -> Vec<String> {
    text.split(';').map(|one| one.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// The paths that a use tree names: `a::{b, c::d}` are a, b and a, c, d.
fn paths(tree: &str) -> Vec<Vec<String>> {
    let (mut paths, mut prefix, mut word) = (Vec::new(), vec![Vec::new()], String::new());
    let mut here: Vec<String> = Vec::new();
    for letter in tree.chars() {
        match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => word.push(letter),
            ':' => {
                if !word.is_empty() {
                    here.push(std::mem::take(&mut word));
                }
            }
            '{' => prefix.push(here.clone()),
            ',' | '}' => {
                if !word.is_empty() {
                    here.push(std::mem::take(&mut word));
                    paths.push(here.clone());
                }
                if letter == '}' {
                    prefix.pop();
                }
                here = prefix.last().cloned().unwrap_or_default();
            }
            '*' => paths.push(here.clone()),
            ' ' if prefix.len() > 1 => {}
            _ => break,
        }
        if prefix.is_empty() || (prefix.len() == 1 && letter == ',') {
            break;
        }
    }
    if !word.is_empty() {
        here.push(word);
        paths.push(here);
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_trees_are_read() {
        let words = |tree: &str| paths(tree).iter().map(|path| path.join("/")).collect::<Vec<_>>();
        assert_eq!(words("a::b"), ["a/b"]);
        assert_eq!(words("a::{b, c::{d, e}, f}"), ["a/b", "a/c/d", "a/c/e", "a/f"]);
        assert_eq!(words("{a::b, c}"), ["a/b", "c"]);
        assert_eq!(words("a::b::new(x, y)"), ["a/b/new"]);
    }

    #[test]
    fn imports_and_paths_in_code_are_told_apart() {
        let code = "pub(crate) use a::{b, c};\nfn f() -> super::T {\n    crate::d::e(mycrate::x)\n}\n";
        let joined = |paths: Vec<Vec<String>>| paths.iter().map(|path| path.join("/")).collect::<Vec<_>>();
        assert_eq!(joined(imports(code)), ["a/b", "a/c"]);
        assert_eq!(joined(named(code)), ["crate/d/e", "super/T"]);
    }
}
