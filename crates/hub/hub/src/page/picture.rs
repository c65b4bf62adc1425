//! Pictures as answers, and their markup in a page: for light and dark, for wide and narrow windows. Absent here: the
//! drawing.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;

/// A picture's options.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Look {
    #[serde(default)]
    pub dark: bool,
    #[serde(default)]
    pub narrow: bool,
}

/// Draws a picture of this size.
pub(super) fn sized(
    look: Look,
    wide: (u32, u32),
    narrow: (u32, u32),
    draw: impl FnOnce(u32, u32) -> String,
) -> String {
    let (width, height) = if look.narrow { narrow } else { wide };
    let svg = draw(width, height);
    if look.dark { darkened(&svg) } else { svg }
}

/// A picture in a page. `source`: its address, to which the options are added.
pub(super) fn chart(source: &str, words: &str) -> Markup {
    let join = if source.contains('?') { '&' } else { '?' };
    let of = |look: &str| format!("{source}{join}{look}");
    html! {
        picture {
            source media="(prefers-color-scheme: dark) and (max-width: 700px)" srcset=(of("narrow=true&dark=true"));
            source media="(prefers-color-scheme: dark)" srcset=(of("dark=true"));
            source media="(max-width: 700px)" srcset=(of("narrow=true"));
            img.chart src=(source) alt=(words);
        }
    }
}

/// An SVG as an answer. In its own window an SVG is a document: the policy forbids scripts and loading.
pub(super) fn answer(svg: String) -> Response {
    let policy = "default-src 'none'; sandbox";
    let headers = [(header::CONTENT_TYPE, "image/svg+xml"), (header::CONTENT_SECURITY_POLICY, policy)];
    (headers, svg).into_response()
}

/// The picture in dark colours. Colours stand in quotes, which words in the picture cannot contain.
fn darkened(svg: &str) -> String {
    const COLOURS: [(&str, &str); 13] = [
        ("\"#fff\"", "\"#1b1f26\""),
        ("\"#222\"", "\"#e8eaee\""),
        ("\"#ddd\"", "\"#39404b\""),
        ("\"#555\"", "\"#aab3c0\""),
        ("\"#999\"", "\"#7d8794\""),
        ("\"#000\"", "\"#ffffff\""),
        ("\"#1a4f8a\"", "\"#86b8f0\""),
        ("\"#a8c6e4\"", "\"#2a4a6d\""),
        ("\"#c2500f\"", "\"#ffa066\""),
        ("\"#f3c9a8\"", "\"#6a3c1e\""),
        ("\"#2f7d4f\"", "\"#7cd6a0\""),
        ("\"#6d4a9e\"", "\"#c4a8f2\""),
        ("\"#bfe0c8\"", "\"#24503a\""),
    ];
    COLOURS.iter().fold(svg.to_owned(), |svg, (light, dark)| svg.replace(light, dark))
}
