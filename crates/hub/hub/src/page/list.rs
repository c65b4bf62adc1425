//! Tables of the page. In a narrow window each row is a card, with the title of its column before each value: the title
//! stands in each cell, and the style sheet shows it there.

use maud::{Markup, html};

/// The address of a table sorted by a column, and whether the table has this order now: `Some(true)` if ascending.
pub(super) type Sorted = (String, Option<bool>);

/// The title of a column and the class of its cells.
fn read(head: &str) -> (&str, &'static str) {
    let classes = [('>', "right"), ('=', "name"), ('~', "wrap"), ('#', "choice")];
    let found = classes.into_iter().find_map(|(sign, class)| Some((head.strip_prefix(sign)?, class)));
    found.unwrap_or((head, ""))
}

/// A table. `label`: its name for screen readers. `heads`: the titles of its columns with `|` between them; `>` before
/// a title marks figures, `=` names, which are cut if long, `~` sentences, `#` checkboxes. Missing cells of a row stay
/// blank.
pub(super) fn table(label: &str, heads: &str, rows: impl Iterator<Item = Vec<Markup>>) -> Markup {
    sortable(label, heads, Vec::new(), rows)
}

/// A table with links in the heads of its last columns.
pub(super) fn sortable(
    label: &str,
    heads: &str,
    links: Vec<Sorted>,
    rows: impl Iterator<Item = Vec<Markup>>,
) -> Markup {
    let heads: Vec<(&str, &str)> = heads.split('|').map(read).collect();
    let links = std::iter::repeat_n(None, heads.len() - links.len()).chain(links.into_iter().map(Some));
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            table.list {
                thead { tr { @for (head, link) in heads.iter().zip(links) { (th(*head, link)) } } }
                tbody { @for row in rows { tr {
                    @for ((title, class), cell) in heads.iter().zip(row.into_iter().chain(std::iter::repeat_with(Markup::default))) {
                        td class=(class) data-head=(title) { (cell) }
                    }
                } } }
            }
        }
    }
}

fn th((title, class): (&str, &str), link: Option<Sorted>) -> Markup {
    let side = if class == "right" { "right" } else { "left" };
    html! {
        @match link {
            None => th scope="col" class=(side) { span.hidden[class == "choice"] { (title) } },
            Some((link, now)) => th scope="col" class=(side) aria-sort=[now.map(|up| if up { "ascending" } else { "descending" })] {
                a href=(link) { (title) @match now { Some(true) => " \u{25B2}", Some(false) => " \u{25BC}", None => "" } }
            },
        }
    }
}

pub(super) fn failures(count: u64) -> Markup {
    html! { @if count > 0 { span.bad { (count) } } @else { "0" } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_has_the_title_of_its_column() {
        let links = vec![("/x?sort=name".to_owned(), Some(false)), ("/x".to_owned(), None)];
        let told =
            sortable("Users", "#Tick|=Name|>Jobs", links, std::iter::once(vec![html! {}, html! { "<ann>" }]));
        let told = told.into_string();
        for part in [
            "<th scope=\"col\" class=\"left\" aria-sort=\"descending\"><a href=\"/x?sort=name\">Name \u{25BC}</a></th>",
            "<td class=\"name\" data-head=\"Name\">&lt;ann&gt;</td>",
            "<td class=\"right\" data-head=\"Jobs\"></td>",
            "<th scope=\"col\" class=\"left\"><span class=\"hidden\">Tick</span></th>",
        ] {
            assert!(told.contains(part), "{part} is not in {told}");
        }
    }
}
