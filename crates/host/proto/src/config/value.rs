//! A key's value as given, before its kind is known.

use toml::de::{DeTable, DeValue};

/// A value as given, reduced to the types that keys can hold.
pub(super) enum Value {
    Bool(bool),
    Number(f64, String),
    Text(String),
    List(Vec<String>),
    EmptyTable,
    Other(String),
}

impl Value {
    pub(super) fn read(text: &str) -> Self {
        let line = format!("v = {text}");
        match DeTable::parse(&line) {
            Ok(table) if table.get_ref().len() == 1 => table
                .get_ref()
                .values()
                .next()
                .map_or_else(|| Self::Text(text.to_owned()), |v| Self::of(v.get_ref())),
            _ => Self::Text(text.to_owned()),
        }
    }

    pub(super) fn of(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::Boolean(on) => Self::Bool(*on),
            DeValue::Integer(number) => Self::number(number.as_str()),
            DeValue::Float(number) => Self::number(number.as_str()),
            DeValue::String(text) => Self::Text(text.clone().into_owned()),
            DeValue::Array(items) => {
                let text = |item: &DeValue<'_>| item.as_str().map(str::to_owned);
                let items: Option<Vec<String>> = items.iter().map(|item| text(item.get_ref())).collect();
                items.map_or_else(|| Self::Other("a list of other things than texts".to_owned()), Self::List)
            }
            DeValue::Datetime(_) => Self::Other("a date".to_owned()),
            DeValue::Table(table) if table.is_empty() => Self::EmptyTable,
            DeValue::Table(_) => Self::Other("a table".to_owned()),
        }
    }

    pub(super) fn number(text: &str) -> Self {
        text.parse()
            .map_or_else(|_| Self::Other(text.to_owned()), |number| Self::Number(number, text.to_owned()))
    }

    pub(super) fn shown(&self) -> String {
        match self {
            Self::Bool(on) => on.to_string(),
            Self::Number(_, text) | Self::Other(text) => text.clone(),
            Self::Text(text) => format!("`{text}`"),
            Self::List(items) => format!("{items:?}"),
            Self::EmptyTable => "an empty table".to_owned(),
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Number(_, text) => Some(text),
            _ => None,
        }
    }

    /// The items of a list, or of a comma-separated text.
    pub(super) fn list(&self) -> Option<Vec<String>> {
        match self {
            Self::List(names) => Some(names.clone()),
            Self::Text(text) => {
                Some(text.split(',').map(str::trim).filter(|n| !n.is_empty()).map(str::to_owned).collect())
            }
            _ => None,
        }
    }
}
