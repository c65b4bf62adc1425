//! The built-in font, and the widths of its letters.

/// DejaVu Sans, reduced; `fonts/ORIGIN.md` describes the subset.
pub(super) const BYTES: &[u8] = include_bytes!("../../fonts/DejaVuSans-subset.ttf");

/// Its name. Viewers of an SVG without the font have a similar font under another of these names.
pub const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";

/// Widths of the characters from the blank on, in 2048ths of the font size (table `hmtx`).
const WIDTHS: [u16; 95] = [
    651, 821, 942, 1716, 1303, 1946, 1597, 563, 799, 799, 1024, 1716, 651, 739, 651, 690, 1303, 1303, 1303,
    1303, 1303, 1303, 1303, 1303, 1303, 1303, 690, 690, 1716, 1716, 1716, 1087, 2048, 1401, 1405, 1430, 1577,
    1294, 1178, 1587, 1540, 604, 604, 1343, 1141, 1767, 1532, 1612, 1235, 1612, 1423, 1300, 1251, 1499, 1401,
    2025, 1403, 1251, 1403, 799, 690, 799, 1716, 1024, 1024, 1255, 1300, 1126, 1300, 1260, 721, 1300, 1298,
    569, 569, 1186, 569, 1995, 1298, 1253, 1300, 1300, 842, 1067, 803, 1298, 1212, 1675, 1212, 1212, 1075,
    1303, 690, 1303, 1716,
];

/// Width assumed for other characters: at least as wide as most letters.
const OTHER: u16 = 1612;

/// The width of a line of text, in the unit of `font_size`.
pub(super) fn width(text: &str, font_size: f64) -> f64 {
    let units: u32 = text
        .chars()
        .map(|c| (c as usize).checked_sub(0x20).and_then(|at| WIDTHS.get(at)).copied().unwrap_or(OTHER))
        .map(u32::from)
        .sum();
    f64::from(units) / 2048.0 * font_size
}

/// The text cut to a width, with a mark for the missing part.
#[must_use]
pub fn cut(text: &str, font_size: f64, room: f64) -> String {
    if width(text, font_size) <= room {
        return text.to_owned();
    }
    let mark = width("…", font_size);
    let mut kept = String::new();
    let mut used = mark;
    for c in text.chars() {
        used += width(c.encode_utf8(&mut [0; 4]), font_size);
        if used > room {
            break;
        }
        kept.push(c);
    }
    kept + "…"
}
