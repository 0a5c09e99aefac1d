//! A JSON document that is written piece by piece: each item in a line of its own, and an object or
//! a list only once it has something in it.

use std::fmt;
use std::io::{self, BufWriter, Write};

use jiff::Timestamp;
use serde::{Serialize, Serializer};

/// An instant, in Unix milliseconds, written as RFC 3339 has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(pub i64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            // No program of Laurel writes such a number.
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The shape of a part of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// An object, whose fields have names.
    Object,
    /// A list of items without names.
    List,
}

/// A document, written through a buffer.
pub struct Document {
    out: BufWriter<Box<dyn Write + Send>>,
    /// The objects and lists that are not at their end, the outermost first.
    levels: Vec<Level>,
    items: u64,
}

/// An object or a list that is not at its end.
struct Level {
    name: Option<&'static str>,
    shape: Shape,
    /// The fields with which an object begins.
    head: String,
    is_written: bool,
    is_empty: bool,
}

impl Document {
    /// An empty document.
    pub fn new(out: BufWriter<Box<dyn Write + Send>>) -> Self {
        Self { out, levels: vec![], items: 0 }
    }

    /// The number of items written.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Begins an object or a list; in an object it has a name. The fields of `head`, which is an
    /// object or `()`, come first. Nothing is written before something is in it.
    ///
    /// # Errors
    /// If `head` has no JSON form.
    pub fn open(
        &mut self,
        name: Option<&'static str>,
        shape: Shape,
        head: &impl Serialize,
    ) -> io::Result<()> {
        let head = serde_json::to_string(head)?;
        let fields = head.strip_prefix('{').and_then(|head| head.strip_suffix('}'));
        let head = fields.unwrap_or_default().to_owned();
        self.levels.push(Level { name, shape, head, is_written: false, is_empty: true });
        Ok(())
    }

    /// Ends the innermost object or list. Returns true if something is in it.
    ///
    /// # Errors
    /// The system's.
    pub fn close(&mut self) -> io::Result<bool> {
        let Some(level) = self.levels.pop() else { return Ok(false) };
        if level.is_written {
            self.out.write_all(if level.shape == Shape::Object { b"\n}" } else { b"\n]" })?;
        }
        Ok(level.is_written)
    }

    /// Writes a field of the innermost object, and counts it as an item.
    ///
    /// # Errors
    /// The system's.
    pub fn field(&mut self, name: &'static str, value: &impl Serialize) -> io::Result<()> {
        self.items += 1;
        self.write_beginnings()?;
        let depth = self.levels.len();
        self.separate(depth)?;
        write!(self.out, "\"{name}\":")?;
        Ok(serde_json::to_writer(&mut self.out, value)?)
    }

    /// Writes an item of the innermost list.
    ///
    /// # Errors
    /// The system's.
    pub fn item(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.items += 1;
        self.write_beginnings()?;
        let depth = self.levels.len();
        self.separate(depth)?;
        Ok(serde_json::to_writer(&mut self.out, value)?)
    }

    /// Writes what is left in the buffer.
    ///
    /// # Errors
    /// The system's.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.write_all(b"\n")?;
        self.out.flush()
    }

    /// Begins what has begun and is not written.
    fn write_beginnings(&mut self) -> io::Result<()> {
        for depth in 0..self.levels.len() {
            if self.levels[depth].is_written {
                continue;
            }
            self.separate(depth)?;
            let level = &mut self.levels[depth];
            if let Some(name) = level.name {
                write!(self.out, "\"{name}\":")?;
            }
            self.out.write_all(if level.shape == Shape::Object { b"{" } else { b"[" })?;
            if !level.head.is_empty() {
                write!(self.out, "\n{}", level.head)?;
                level.is_empty = false;
            }
            level.is_written = true;
        }
        Ok(())
    }

    /// Separates what comes next on a level from what is there.
    fn separate(&mut self, depth: usize) -> io::Result<()> {
        let Some(level) = depth.checked_sub(1).and_then(|outer| self.levels.get_mut(outer)) else {
            return Ok(());
        };
        let was_empty = std::mem::replace(&mut level.is_empty, false);
        self.out.write_all(if was_empty { b"\n" } else { b",\n" })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// A place that keeps what is written.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn a_document_has_what_was_put_in_it_and_no_empty_lists(
            lists in prop::collection::vec(prop::collection::vec("\\PC{0,4}", 0..3), 0..4),
        ) {
            let kept = Kept::default();
            let mut document = Document::new(BufWriter::new(Box::new(kept.clone())));
            document.open(None, Shape::Object, &json!({ "format": 1 })).unwrap();
            document.field("member", &None::<u8>).unwrap();
            document.open(Some("boards"), Shape::List, &()).unwrap();
            let mut expected = vec![];
            for (no, list) in lists.iter().enumerate() {
                document.open(None, Shape::Object, &json!({ "no": no })).unwrap();
                document.open(Some("events"), Shape::List, &()).unwrap();
                for item in list {
                    document.item(item).unwrap();
                }
                document.close().unwrap();
                prop_assert_eq!(document.close().unwrap(), !list.is_empty());
                if !list.is_empty() {
                    expected.push(json!({ "no": no, "events": list }));
                }
            }
            document.close().unwrap();
            document.close().unwrap();
            prop_assert_eq!(document.items(), 1 + lists.iter().flatten().count() as u64);
            document.finish().unwrap();
            let said: Value = serde_json::from_slice(&kept.0.lock().unwrap()).unwrap();
            let mut whole = json!({ "format": 1, "member": null });
            if !expected.is_empty() {
                whole["boards"] = json!(expected);
            }
            prop_assert_eq!(said, whole);
        }
    }

    #[test]
    fn a_time_has_milliseconds() {
        assert_eq!(Time(1_700_000_000_000).to_string(), "2023-11-14T22:13:20.000Z");
        assert_eq!(Time(i64::MAX).to_string(), format!("{} ms", i64::MAX));
    }
}
