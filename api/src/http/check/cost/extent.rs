//! The extent of the values of variables.

use async_graphql_value::ConstValue;

/// The extent of a value.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    /// Its bytes, about.
    pub(super) bytes: u64,
    /// The length of a list, or of the longest list in an object; `None` without one.
    pub(super) length: Option<u64>,
}

impl Extent {
    pub(super) fn of(value: &ConstValue) -> Self {
        Self { bytes: const_bytes(value), length: const_length(value) }
    }
}

fn const_length(value: &ConstValue) -> Option<u64> {
    match value {
        ConstValue::List(items) => Some(items.len() as u64),
        ConstValue::Object(fields) => fields.values().filter_map(const_length).max(),
        _ => None,
    }
}

fn const_bytes(value: &ConstValue) -> u64 {
    match value {
        ConstValue::String(text) => text.len() as u64 + 8,
        ConstValue::List(items) => items.iter().map(const_bytes).sum::<u64>() + 8,
        ConstValue::Object(fields) => {
            fields.iter().map(|(key, field)| key.len() as u64 + const_bytes(field)).sum::<u64>() + 8
        }
        _ => 8,
    }
}
