//! The SVG as PNG, drawn by `resvg` with the built-in font only.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use super::font;

/// Why there is no PNG.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// No picture can have this size.
    #[error("a picture of {width} by {height} pixels cannot be drawn")]
    Size {
        /// Pixels across.
        width: u32,
        /// Pixels down.
        height: u32,
    },
    /// The SVG is not understood.
    #[error("the drawing is not understood")]
    Drawing(#[source] resvg::usvg::Error),
    /// The pixels cannot be written as PNG.
    #[error("failed to write a picture of {width} by {height} pixels as PNG: {reason}")]
    Encoding {
        /// Pixels across.
        width: u32,
        /// Pixels down.
        height: u32,
        /// The encoder's message.
        reason: String,
    },
}

/// Draws an SVG at any size as PNG, with the built-in font.
///
/// # Errors
/// When the drawing is invalid or the size impossible.
pub fn draw(svg: &str, width: u32, height: u32) -> Result<Vec<u8>, PngError> {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(font::BYTES.to_vec());
    let options =
        Options { fontdb: Arc::new(fonts), font_family: "DejaVu Sans".to_owned(), ..Options::default() };
    let mut pixels = Pixmap::new(width, height).ok_or(PngError::Size { width, height })?;
    let tree = Tree::from_str(svg, &options).map_err(PngError::Drawing)?;
    resvg::render(&tree, Transform::identity(), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| PngError::Encoding { width, height, reason: error.to_string() })
}
