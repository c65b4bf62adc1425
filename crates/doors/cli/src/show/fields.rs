//! The keys of a type as JSON, without a value of it: the fields that its derived reader asks for.

use std::fmt;

use serde::de::{DeserializeOwned, Deserializer, Error, Visitor};
use serde::forward_to_deserialize_any;

/// The names of the fields of a struct; none of anything else.
pub(super) fn of<T: DeserializeOwned>() -> &'static [&'static str] {
    T::deserialize(Names).err().map_or(&[], |asked| asked.0)
}

struct Names;

/// The early exit of the reader, with the fields asked for.
#[derive(Debug)]
struct Asked(&'static [&'static str]);

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the fields are {}", self.0.join(", "))
    }
}

impl std::error::Error for Asked {}

impl Error for Asked {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(&[])
    }
}

impl<'de> Deserializer<'de> for Names {
    type Error = Asked;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Asked> {
        Err(Asked(&[]))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Asked> {
        Err(Asked(fields))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use pinfold_proto::view::{JobView, ReportView};

    use super::*;

    #[test]
    fn views_have_their_keys() {
        assert!(of::<JobView>().starts_with(&["job", "name", "user"]), "{:?}", of::<JobView>());
        assert!(of::<ReportView>().contains(&"wall_s"));
        assert!(of::<serde_json::Value>().is_empty());
    }
}
