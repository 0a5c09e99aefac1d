//! The page of limits: each number is the constant that its row names.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use tests::servers::program;

/// The crates whose constants are limits.
const CRATES: [&str; 7] =
    ["ranking", "entity", "engine", "api", "analytics", "ingest", "migration"];

/// A constant of the sources.
struct Constant {
    /// The stem of its file.
    file: String,
    kind: String,
    expression: String,
}

/// All constants, by name.
type Constants = HashMap<String, Vec<Constant>>;

fn constants() -> Constants {
    let mut constants = HashMap::new();
    for name in CRATES {
        collect(&program::root().join(name).join("src"), &mut constants);
    }
    constants
}

fn collect(directory: &Path, constants: &mut Constants) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, constants);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let file = path.file_stem().unwrap().to_str().unwrap();
            for (name, kind, expression) in text.lines().enumerate().filter_map(|(index, line)| {
                let line = line.trim_start();
                let visible = ["pub ", "pub(crate) ", "pub(super) "];
                let visible = visible.into_iter().find_map(|word| line.strip_prefix(word));
                let name = visible.unwrap_or(line).strip_prefix("const ")?;
                // The expression may be on the lines below.
                let rest = text.lines().skip(index + 1).collect::<Vec<_>>().join(" ");
                let (name, declared) = name.split_once(": ")?;
                let declared = format!("{declared} {rest}");
                let (kind, value) = declared.split_once('=')?;
                let (expression, _) = value.split_once(';')?;
                Some((name.to_owned(), kind.trim().to_owned(), expression.trim().to_owned()))
            }) {
                let constant = Constant { file: file.to_owned(), kind, expression };
                constants.entry(name).or_default().push(constant);
            }
        }
    }
}

/// An expression of integers and constants; durations count in microseconds.
struct Expression<'a> {
    rest: &'a str,
    constants: &'a Constants,
}

impl Expression<'_> {
    fn values(text: &str, constants: &Constants) -> Vec<i128> {
        let list = text.strip_prefix('[').and_then(|list| list.strip_suffix(']'));
        let parts = list.map_or(vec![text], |list| list.split(',').collect());
        let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
        parts.map(|part| Expression { rest: part, constants }.shifted(part)).collect()
    }

    /// The value of the whole text.
    fn shifted(mut self, text: &str) -> i128 {
        let value = self.shift();
        assert!(self.rest.trim().is_empty(), "{text} has more than numbers and constants");
        value
    }

    fn takes(&mut self, sign: &str) -> bool {
        match self.rest.trim_start().strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn shift(&mut self) -> i128 {
        let mut value = self.sum();
        while self.takes("<<") {
            value <<= self.sum();
        }
        value
    }

    fn sum(&mut self) -> i128 {
        let mut value = self.product();
        loop {
            if self.takes("+") {
                value += self.product();
            } else if self.takes("-") {
                value -= self.product();
            } else {
                return value;
            }
        }
    }

    fn product(&mut self) -> i128 {
        let mut value = self.operand();
        while self.takes("*") {
            value *= self.operand();
        }
        value
    }

    fn operand(&mut self) -> i128 {
        if self.takes("(") {
            let value = self.shift();
            assert!(self.takes(")"), "a bracket is open before {}", self.rest);
            return value;
        }
        let rest = self.rest.trim_start();
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        match word.rsplit("::").next().unwrap_or_default() {
            "from_secs" => self.operand() * 1_000_000,
            "from_millis" => self.operand() * 1000,
            "from_micros" => self.operand(),
            number if number.starts_with(|c: char| c.is_ascii_digit()) => {
                number.replace('_', "").parse().unwrap()
            }
            name => {
                let constant = &self.constants.get(name).unwrap_or_else(|| panic!("{name}?"))[0];
                Self::values(&constant.expression, self.constants)[0]
            }
        }
    }
}

/// The number of base units in a unit: microseconds for a duration, bytes for memory. A plain
/// number of milliseconds or days stands for itself.
fn scale(unit: &str, is_duration: bool) -> i128 {
    match (unit, is_duration) {
        ("KiB", _) => 1 << 10,
        ("MiB", _) => 1 << 20,
        ("ms", true) => 1000,
        ("s", true) => 1_000_000,
        ("min", true) => 60 * 1_000_000,
        ("h", true) => 3600 * 1_000_000,
        ("d", true) => 86_400 * 1_000_000,
        _ => 1,
    }
}

#[test]
fn limits_are_the_constants_that_the_page_names() {
    let page = fs::read_to_string(program::root().join("docs/reference/limits.md")).unwrap();
    let constants = constants();
    let (mut wrong, mut compared) = (vec![], 0);
    for (index, line) in page.lines().enumerate() {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [_, value, unit, _, _, named] = cells[..] else { continue };
        let Some(named) = named.strip_prefix('`').and_then(|named| named.strip_suffix('`')) else {
            continue;
        };
        let (file, name) = match named.split_once("::") {
            Some((file, name)) => (Some(file), name),
            None => (None, named),
        };
        let known = constants.get(name).into_iter().flatten();
        let found: Vec<&Constant> =
            known.filter(|constant| file.is_none_or(|file| constant.file == file)).collect();
        let [constant] = found[..] else {
            let files: Vec<&str> = found.iter().map(|constant| constant.file.as_str()).collect();
            wrong.push(format!("limits.md:{}: {named} is in {files:?}: expected one", index + 1));
            continue;
        };
        let is_duration = constant.kind.ends_with("Duration");
        let listed: Vec<i128> = value
            .split(", ")
            .map(|value| value.replace(',', "").parse::<i128>().unwrap() * scale(unit, is_duration))
            .collect();
        let real = Expression::values(&constant.expression, &constants);
        compared += 1;
        if listed != real {
            wrong.push(format!(
                "limits.md:{}: {value} {unit}, but {named} is {}",
                index + 1,
                constant.expression
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 70, "only {compared} rows name a constant");
}
