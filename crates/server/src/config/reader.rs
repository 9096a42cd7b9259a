//! Reads fields from the tree, and says which one is wrong and what it accepts.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer, Expected, IntoDeserializer as _, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use super::suggest::{choices, did_you_mean};
use super::tree::{Node, Source, Value};

/// What is wrong with a field, and which one it is.
#[derive(Debug)]
pub(crate) struct ReadError {
    message: String,
    /// The way to the field from inside out, because that is how an error travels.
    steps: Vec<String>,
    source: Option<Source>,
}

impl ReadError {
    fn new(message: String) -> Self {
        Self { message, steps: Vec::new(), source: None }
    }

    fn inside(mut self, step: String, source: &Source) -> Self {
        self.steps.push(step);
        self.source.get_or_insert_with(|| source.clone());
        self
    }

    /// The path of the field, where it was written, and what is wrong.
    pub(crate) fn located(self, root: &str, source: &Source) -> (String, Source, String) {
        let path = self.steps.iter().rev().fold(root.to_owned(), |path, step| path + step);
        (path, self.source.unwrap_or_else(|| source.clone()), self.message)
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ReadError {}

impl de::Error for ReadError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(match unexpected {
            Unexpected::Unit => format!("it is empty; expected {expected}"),
            Unexpected::Seq => format!("a list does not belong here; expected {expected}"),
            Unexpected::Map => format!("a mapping does not belong here; expected {expected}"),
            // The text itself is left out: it may be a secret that went to the wrong place.
            _ => format!("a single value does not belong here; expected {expected}"),
        })
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::new(unknown_field(field, expected))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let hint = did_you_mean(variant, expected);
        Self::new(format!("{variant:?} is not accepted; use {}{hint}", choices(expected, "or")))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("the field {field} is missing"))
    }
}

/// The sentence about a field that does not exist.
pub(crate) fn unknown_field(field: &str, expected: &[&str]) -> String {
    let hint = did_you_mean(field, expected);
    match expected {
        [] => "there is no such field; none is accepted here".to_owned(),
        _ => format!("there is no such field; use {}{hint}", choices(expected, "or")),
    }
}

/// A node as serde sees it.
pub(crate) struct Reader<'a>(pub(crate) &'a Node);

impl<'a> Reader<'a> {
    fn text(&self, expected: &str) -> Result<&'a str, ReadError> {
        match &self.0.value {
            Value::Scalar { text, .. } => Ok(text),
            other => Err(ReadError::new(format!("expected {expected}, found {}", other.kind()))),
        }
    }
}

fn whole_number(max: u64) -> String {
    if max == u64::MAX {
        "a whole number, 0 or more".to_owned()
    } else {
        format!("a whole number from 0 to {max}")
    }
}

macro_rules! whole_numbers {
    ($($method:ident $visit:ident $type:ty,)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            let expected = whole_number(u64::from(<$type>::MAX));
            let text = self.text(&expected)?;
            match text.parse::<$type>() {
                Ok(number) => visitor.$visit(number),
                Err(_) => Err(ReadError::new(format!("{text:?} is not {expected}"))),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match &self.0.value {
            Value::Null => visitor.visit_unit(),
            Value::Scalar { text, .. } => visitor.visit_borrowed_str(text),
            Value::List(items) => visitor.visit_seq(Items { items: items.iter(), index: 0 }),
            Value::Map(entries) => {
                visitor.visit_map(Entries { entries: entries.iter(), current: None })
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.text("true or false")? {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            other => Err(ReadError::new(format!("{other:?} is not accepted; use true or false"))),
        }
    }

    whole_numbers! {
        deserialize_u8 visit_u8 u8,
        deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32,
        deserialize_u64 visit_u64 u64,
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let text = self.text("a number")?;
        match text.parse() {
            Ok(number) => visitor.visit_f64(number),
            Err(_) => Err(ReadError::new(format!("{text:?} is not a number such as 0.75"))),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let text = self.text(&choices(variants, "or"))?;
        visitor.visit_enum(StrDeserializer::<ReadError>::new(text))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match &self.0.value {
            Value::Map(_) => self.deserialize_any(visitor),
            other => Err(ReadError::new(format!(
                "expected a mapping with {}, found {}",
                choices(fields, "and"),
                other.kind()
            ))),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u128 f32 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

struct Items<'de> {
    items: std::slice::Iter<'de, Node>,
    index: usize,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ReadError> {
        let Some(item) = self.items.next() else {
            return Ok(None);
        };
        let step = format!("[{}]", self.index);
        self.index += 1;
        seed.deserialize(Reader(item)).map(Some).map_err(|e| e.inside(step, &item.source))
    }
}

struct Entries<'de> {
    entries: std::slice::Iter<'de, (String, Node)>,
    current: Option<&'de (String, Node)>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        self.current = self.entries.next();
        let Some((key, node)) = self.current else {
            return Ok(None);
        };
        let key_reader: StrDeserializer<'_, ReadError> = key.as_str().into_deserializer();
        seed.deserialize(key_reader)
            .map(Some)
            .map_err(|error| error.inside(format!(".{key}"), &node.source))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        let Some((key, node)) = self.current else {
            return Err(ReadError::new("a value was asked for before its key".to_owned()));
        };
        seed.deserialize(Reader(node))
            .map_err(|error| error.inside(format!(".{key}"), &node.source))
    }
}
