//! The schema of a running server, as introspection shows it: the places that its fields have, and
//! values for their arguments.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;

use async_graphql_parser::parse_query;
use async_graphql_parser::types::Selection;
use serde_json::{Value, json};

use crate::api::Api;

/// GraphiQL's question about all of a schema, with all of its options.
pub const INTROSPECTION: &str = "
    query IntrospectionQuery { __schema {
        description
        queryType { name kind } mutationType { name kind } subscriptionType { name kind }
        types { ...FullType }
        directives {
            name description isRepeatable locations
            args(includeDeprecated: true) { ...InputValue }
        }
    } }
    fragment FullType on __Type {
        kind name description specifiedByURL isOneOf
        fields(includeDeprecated: true) {
            name description args(includeDeprecated: true) { ...InputValue } type { ...TypeRef }
            isDeprecated deprecationReason
        }
        inputFields(includeDeprecated: true) { ...InputValue }
        interfaces { ...TypeRef }
        enumValues(includeDeprecated: true) { name description isDeprecated deprecationReason }
        possibleTypes { ...TypeRef }
    }
    fragment InputValue on __InputValue {
        name description type { ...TypeRef } defaultValue isDeprecated deprecationReason
    }
    fragment TypeRef on __Type { kind name ofType { kind name ofType { kind name ofType {
        kind name ofType { kind name ofType { kind name ofType { kind name ofType {
        kind name ofType { kind name ofType { kind name } } } } } } } } } }";

/// The parts of it that every server has to know.
const TYPES: &str = "
    { __schema { types {
        kind name enumValues { name }
        fields { name args { name type { ...T } } type { ...T } }
        inputFields { name type { ...T } }
    } } }
    fragment T on __Type { kind name ofType { kind name ofType { kind name ofType { kind name } } } }";

/// Types that have fields.
const COMPOSITE: [&str; 2] = ["OBJECT", "INTERFACE"];

/// Levels of input objects in one another.
const INPUT_LEVELS: usize = 4;

/// The types of operations, and how one begins.
const ROOTS: [(&str, &str); 3] =
    [("Query", "query"), ("Mutation", "mutation"), ("Subscription", "subscription")];

/// The variable of a [`Hole`].
const VARIABLE: &str = "$v";

/// A schema.
pub struct Schema(BTreeMap<String, Type>);

/// A type of it.
struct Type {
    kind: String,
    fields: Vec<Field>,
    inputs: Vec<Input>,
    values: Vec<String>,
}

/// A field of an object.
#[derive(Debug, Clone)]
pub struct Field {
    pub name: String,
    pub arguments: Vec<Input>,
    pub of: String,
}

/// An argument, or a field of an input object. Its type is as in SDL, such as `[String!]!`.
#[derive(Debug, Clone)]
pub struct Input {
    pub name: String,
    pub of: String,
}

/// A field with a way that leads to it.
#[derive(Debug, Clone)]
pub struct Place {
    /// The field, after its type: `Board.periods`.
    pub field: String,
    /// The name of the type that it answers with.
    pub type_name: String,
    /// Its arguments that a cost may be multiplied by.
    pub multipliers: Vec<Input>,
    name: String,
    /// All before the field: `query{board(slug:"big"){`.
    before: String,
    /// The arguments that it needs, each with a value.
    needs: Vec<(String, String)>,
}

/// A place in the argument of a field where a scalar stands.
pub struct Hole {
    /// Its name: `Mutation.createBoard(input.slug)`.
    pub what: String,
    /// An operation with the variable `$v`, which stands for the scalar or for the whole argument.
    pub document: String,
    /// The value of the variable, with the text `$v` where the scalar stands.
    variable: Value,
}

impl Schema {
    /// The schema of a server.
    pub async fn of(api: &Api) -> Self {
        let data = api.data(TYPES, json!({})).await;
        let types = data["__schema"]["types"].as_array().unwrap();
        let own = types.iter().filter(|of| !text(of, "name").starts_with("__"));
        Self(own.map(|of| (text(of, "name"), Type::of(of))).collect())
    }

    /// The fields of a type.
    pub fn fields(&self, type_name: &str) -> &[Field] {
        self.0.get(type_name).map_or(&[][..], |found| &found.fields[..])
    }

    /// True if fields of this type need selections.
    pub fn is_composite(&self, type_name: &str) -> bool {
        self.0.get(type_name).is_some_and(|found| COMPOSITE.contains(&found.kind.as_str()))
    }

    /// The fields that have a way to them, each once.
    pub fn places(&self) -> Vec<Place> {
        let (mut ways, mut places) = (BTreeMap::new(), vec![]);
        for (root, operation) in ROOTS {
            ways.insert(root.to_owned(), format!("{operation}{{"));
            let mut queue = VecDeque::from([root.to_owned()]);
            while let Some(type_name) = queue.pop_front() {
                let before = ways[&type_name].clone();
                for field in self.fields(&type_name) {
                    let place = self.place(&type_name, field, &before);
                    let next = &place.type_name;
                    if self.is_composite(next) && !ways.contains_key(next) {
                        ways.insert(next.clone(), format!("{before}{}{{", place.call(&[])));
                        queue.push_back(next.clone());
                    }
                    places.push(place);
                }
            }
        }
        places
    }

    /// The places of fields that need selections and have arguments to multiply by.
    pub fn composite_places(&self) -> Vec<Place> {
        let mut places = self.places();
        places.retain(|place| self.is_composite(&place.type_name) && !place.multipliers.is_empty());
        places
    }

    /// Every scalar in an argument of a field; one in an input object twice, as the object may be a
    /// variable, too.
    pub fn holes(&self) -> Vec<Hole> {
        let mut holes = vec![];
        for place in self.places() {
            let (parent, _) = place.field.split_once('.').unwrap();
            let fields = self.fields(parent);
            let field = fields.iter().find(|field| field.name == place.name).unwrap();
            let leaf = if self.is_composite(&place.type_name) { "__typename" } else { "" };
            for argument in &field.arguments {
                let mut hole = |what: String, literal: &str, of: &str, variable: Value| {
                    let document = place.document(&[(argument.name.as_str(), literal)], leaf);
                    let (operation, rest) = document.split_once('{').unwrap();
                    let document = format!("{operation}({VARIABLE}:{of}){{{rest}");
                    let what = format!("{}({what})", place.field);
                    holes.push(Hole { what, document, variable });
                };
                for (path, literal, type_name) in self.holes_of(argument, INPUT_LEVELS) {
                    if path.contains('.') {
                        let what = format!("{path} of a variable");
                        hole(what, VARIABLE, &argument.of, json_of(&literal));
                    }
                    hole(path, &literal, &format!("{type_name}!"), json!(VARIABLE));
                }
            }
        }
        holes
    }

    /// The names of all values of an enum; empty for other types.
    pub fn values(&self, type_name: &str) -> &[String] {
        self.0.get(type_name).map_or(&[][..], |found| &found.values[..])
    }

    /// The fields of an input object; empty for other types.
    pub fn inputs(&self, type_name: &str) -> &[Input] {
        self.0.get(type_name).map_or(&[][..], |found| &found.inputs[..])
    }

    /// A value for an argument that the boards of the attacks have.
    pub fn sample(&self, input: &Input) -> String {
        let value = match named(&input.of) {
            "Int" => "1".to_owned(),
            "Float" => "50.5".to_owned(),
            "Boolean" => "true".to_owned(),
            "DateTime" => "\"2025-01-01T00:00:00Z\"".to_owned(),
            "Decimal" => "\"1\"".to_owned(),
            "ID" => "\"board:big.1\"".to_owned(),
            "String" => match input.name.as_str() {
                "slug" | "board" | "boards" => "\"big\"".to_owned(),
                "window" | "since" | "name" => "\"daily\"".to_owned(),
                _ => "\"m00000\"".to_owned(),
            },
            other => match self.values(other).first() {
                Some(value) => value.clone(),
                None => object(self.needs(self.inputs(other))),
            },
        };
        in_lists(&input.of, value)
    }

    fn place(&self, parent: &str, field: &Field, before: &str) -> Place {
        let is_multiplier = |input: &&Input| input.of.starts_with('[') || named(&input.of) == "Int";
        Place {
            field: format!("{parent}.{}", field.name),
            type_name: named(&field.of).to_owned(),
            multipliers: field.arguments.iter().filter(is_multiplier).cloned().collect(),
            name: field.name.clone(),
            before: before.to_owned(),
            needs: self.needs(&field.arguments),
        }
    }

    fn needs(&self, inputs: &[Input]) -> Vec<(String, String)> {
        let needed = inputs.iter().filter(|input| input.of.ends_with('!'));
        needed.map(|input| (input.name.clone(), self.sample(input))).collect()
    }

    /// The scalars of an argument: each with its path, the argument's value with `$v` in its place,
    /// and its type.
    fn holes_of(&self, input: &Input, levels: usize) -> Vec<(String, String, String)> {
        let type_name = named(&input.of);
        let inner = self.inputs(type_name);
        if inner.is_empty() {
            let literal = in_lists(&input.of, VARIABLE.to_owned());
            return vec![(input.name.clone(), literal, type_name.to_owned())];
        }
        let mut holes = vec![];
        for field in inner.iter().filter(|_| levels > 0) {
            for (path, literal, type_name) in self.holes_of(field, levels - 1) {
                let mut values = self.needs(inner);
                values.retain(|(name, _)| *name != field.name);
                values.push((field.name.clone(), literal));
                let literal = in_lists(&input.of, object(values));
                holes.push((format!("{}.{path}", input.name), literal, type_name));
            }
        }
        holes
    }
}

impl Type {
    fn of(value: &Value) -> Self {
        let list = |name: &str| value[name].as_array().cloned().unwrap_or_default();
        let inputs = |values: Vec<Value>| -> Vec<Input> {
            let input =
                |value: &Value| Input { name: text(value, "name"), of: sdl(&value["type"]) };
            values.iter().map(input).collect()
        };
        let field = |field: &Value| Field {
            name: text(field, "name"),
            arguments: inputs(field["args"].as_array().cloned().unwrap_or_default()),
            of: sdl(&field["type"]),
        };
        Self {
            kind: text(value, "kind"),
            fields: list("fields").iter().map(field).collect(),
            inputs: inputs(list("inputFields")),
            values: list("enumValues").iter().map(|value| text(value, "name")).collect(),
        }
    }
}

impl Place {
    /// An operation that asks for the field: arguments replace those that it needs, and `leaf` is
    /// what it selects, if anything.
    pub fn document(&self, arguments: &[(&str, &str)], leaf: &str) -> String {
        let selected = if leaf.is_empty() { String::new() } else { format!("{{{leaf}}}") };
        let ends = "}".repeat(self.before.matches('{').count() - self.objects());
        format!("{}{}{selected}{ends}", self.before, self.call(arguments))
    }

    /// Braces that input objects before the field open and close.
    fn objects(&self) -> usize {
        self.before.matches('}').count()
    }

    fn call(&self, arguments: &[(&str, &str)]) -> String {
        let is_replaced = |name: &str| arguments.iter().any(|(other, _)| *other == name);
        let needed = self.needs.iter().filter(|(name, _)| !is_replaced(name));
        let needed = needed.map(|(name, value)| format!("{name}:{value}"));
        let given = arguments.iter().map(|(name, value)| format!("{name}:{value}"));
        let all: Vec<String> = needed.chain(given).collect();
        if all.is_empty() {
            return self.name.clone();
        }
        format!("{}({})", self.name, all.join(","))
    }
}

impl Hole {
    /// The variables that give the scalar a value.
    pub fn variables(&self, value: &Value) -> Value {
        json!({ "v": with(&self.variable, value) })
    }
}

/// A template with a value in place of the text `$v`.
fn with(template: &Value, value: &Value) -> Value {
    match template {
        Value::String(text) if text == VARIABLE => value.clone(),
        Value::Array(values) => values.iter().map(|inner| with(inner, value)).collect(),
        Value::Object(fields) => {
            let filled = |(name, inner): (&String, &Value)| (name.clone(), with(inner, value));
            fields.iter().map(filled).collect()
        }
        other => other.clone(),
    }
}

/// A literal of GraphQL as JSON; a variable is the text of its name.
fn json_of(literal: &str) -> Value {
    let document = parse_query(format!("{{field(argument:{literal})}}")).unwrap();
    let (_, operation) = document.operations.iter().next().unwrap();
    let Selection::Field(field) = &operation.node.selection_set.node.items[0].node else {
        unreachable!("a field was parsed");
    };
    let value = field.node.arguments[0].1.node.clone();
    let value = value.into_const_with(|name| Ok::<_, Infallible>(format!("${name}").into()));
    value.unwrap().into_json().unwrap()
}

impl Input {
    /// Values that multiply by nothing.
    pub fn nothings(&self) -> &'static [&'static str] {
        if self.of.starts_with('[') { &["[]", "null"] } else { &["0", "-1", "0.0", "[]"] }
    }
}

/// The name of a type, without its lists.
pub fn named(of: &str) -> &str {
    of.trim_matches(['[', ']', '!'])
}

/// A value, in as many lists as its type has.
pub fn in_lists(of: &str, value: String) -> String {
    let levels = of.matches('[').count();
    format!("{}{value}{}", "[".repeat(levels), "]".repeat(levels))
}

/// An input object.
pub fn object(fields: Vec<(String, String)>) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{name}:{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

fn sdl(of: &Value) -> String {
    match of["kind"].as_str() {
        Some("NON_NULL") => format!("{}!", sdl(&of["ofType"])),
        Some("LIST") => format!("[{}]", sdl(&of["ofType"])),
        _ => text(of, "name"),
    }
}
