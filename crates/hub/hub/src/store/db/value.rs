//! Values on their way into a database and out of it.

use super::DbError;

#[derive(Debug, Clone, PartialEq)]
pub(in super::super) enum Value {
    None,
    Whole(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

macro_rules! from {
    ($($of:ty, $value:ident => $made:expr;)*) => {
        $(impl From<$of> for Value {
            fn from($value: $of) -> Self {
                $made
            }
        })*
    };
}

from! {
    i64, number => Self::Whole(number);
    i32, number => Self::Whole(number.into());
    u8, number => Self::Whole(number.into());
    u32, number => Self::Whole(number.into());
    u64, number => Self::Whole(i64::try_from(number).unwrap_or(i64::MAX));
    usize, number => Self::Whole(i64::try_from(number).unwrap_or(i64::MAX));
    f64, number => Self::Real(number);
    &str, text => Self::Text(text.to_owned());
    String, text => Self::Text(text);
    &String, text => Self::Text(text.clone());
    &[u8], bytes => Self::Blob(bytes.to_owned());
    Vec<u8>, bytes => Self::Blob(bytes);
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}

/// Values in the order of their places.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        [$($crate::store::db::Value::from($value)),*]
    };
}
pub(in super::super) use values;

#[derive(Debug, Default)]
pub(in super::super) struct Row(pub(super) Vec<Value>);

impl Row {
    fn at(&self, at: usize) -> Result<&Value, DbError> {
        self.0.get(at).ok_or_else(|| DbError::kind(at, "column"))
    }

    /// The raw value of a column.
    pub(in super::super) fn value(&self, at: usize) -> Result<&Value, DbError> {
        self.at(at)
    }

    /// The value of a column.
    pub(in super::super) fn get<'a, T: FromValue<'a>>(&'a self, at: usize) -> Result<T, DbError> {
        T::from_value(self.at(at)?).ok_or_else(|| DbError::kind(at, T::NAME))
    }
}

/// A type that a value can be read as.
pub(in super::super) trait FromValue<'a>: Sized {
    /// Name of the type in errors.
    const NAME: &'static str;

    fn from_value(value: &'a Value) -> Option<Self>;
}

impl FromValue<'_> for i64 {
    const NAME: &'static str = "whole number";

    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Whole(number) = value { Some(*number) } else { None }
    }
}

impl FromValue<'_> for u32 {
    const NAME: &'static str = "small whole number";

    fn from_value(value: &Value) -> Option<Self> {
        i64::from_value(value).and_then(|number| number.try_into().ok())
    }
}

/// Negative numbers read as 0.
impl FromValue<'_> for u64 {
    const NAME: &'static str = "whole number";

    fn from_value(value: &Value) -> Option<Self> {
        i64::from_value(value).map(|number| Self::try_from(number).unwrap_or(0))
    }
}

impl FromValue<'_> for f64 {
    const NAME: &'static str = "number";

    #[expect(clippy::cast_precision_loss, reason = "15 digits of a size are enough")]
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Real(number) => Some(*number),
            Value::Whole(number) => Some(*number as Self),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a str {
    const NAME: &'static str = "text";

    fn from_value(value: &'a Value) -> Option<Self> {
        if let Value::Text(text) = value { Some(text) } else { None }
    }
}

impl FromValue<'_> for String {
    const NAME: &'static str = "text";

    fn from_value(value: &Value) -> Option<Self> {
        <&str>::from_value(value).map(str::to_owned)
    }
}

impl<'a> FromValue<'a> for &'a [u8] {
    const NAME: &'static str = "bytes";

    fn from_value(value: &'a Value) -> Option<Self> {
        if let Value::Blob(bytes) = value { Some(bytes) } else { None }
    }
}

impl FromValue<'_> for Vec<u8> {
    const NAME: &'static str = "bytes";

    fn from_value(value: &Value) -> Option<Self> {
        <&[u8]>::from_value(value).map(<[u8]>::to_vec)
    }
}

impl<'a, T: FromValue<'a>> FromValue<'a> for Option<T> {
    const NAME: &'static str = T::NAME;

    fn from_value(value: &'a Value) -> Option<Self> {
        if *value == Value::None { Some(None) } else { T::from_value(value).map(Some) }
    }
}
