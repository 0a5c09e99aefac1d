//! The types of the schema, for checks of requests and answers.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use async_graphql::Positioned;
use async_graphql::parser::types::{InputValueDefinition, Type, TypeKind, TypeSystemDefinition};
use async_graphql_value::Name;

/// The types of Laurel's schema.
pub static TYPES: LazyLock<Types> = LazyLock::new(Types::of_schema);

/// The types of a schema, by their names.
#[derive(Default)]
pub struct Types {
    /// The fields of objects and interfaces.
    fields: HashMap<Name, HashMap<Name, Field>>,
    interfaces: HashSet<Name>,
    input_objects: HashMap<Name, Inputs>,
    enums: HashMap<Name, Vec<Name>>,
}

/// A field of an object or interface.
pub struct Field {
    /// Its type.
    pub of: Type,
    /// Its arguments.
    pub arguments: Inputs,
}

/// An argument, or a field of an input object.
pub struct Input {
    /// Its type.
    pub of: Type,
    /// True if it has a value where none is given.
    pub has_default: bool,
}

/// Arguments of a field, or fields of an input object.
pub type Inputs = HashMap<Name, Input>;

impl Types {
    fn of_schema() -> Self {
        let schema = async_graphql::parser::parse_schema(crate::graphql::definitions());
        let mut types = Self::default();
        for definition in schema.expect("the schema is valid").definitions {
            let TypeSystemDefinition::Type(of) = definition else {
                continue;
            };
            let name = of.node.name.node;
            let fields = match of.node.kind {
                TypeKind::Object(object) => object.fields,
                TypeKind::Interface(interface) => {
                    types.interfaces.insert(name.clone());
                    interface.fields
                }
                TypeKind::InputObject(object) => {
                    types.input_objects.insert(name, inputs(object.fields));
                    continue;
                }
                TypeKind::Enum(of) => {
                    let values = of.values.into_iter().map(|value| value.node.value.node);
                    types.enums.insert(name, values.collect());
                    continue;
                }
                _ => continue,
            };
            let fields = fields.into_iter().map(|field| {
                let field = field.node;
                let arguments = inputs(field.arguments);
                (field.name.node, Field { of: field.ty.node, arguments })
            });
            types.fields.insert(name, fields.collect());
        }
        types
    }

    /// A field of an object or interface; `None` if there is no such field.
    pub fn field(&self, type_name: &str, field: &str) -> Option<&Field> {
        self.fields.get(type_name)?.get(field)
    }

    /// True for objects and interfaces.
    pub fn is_composite(&self, type_name: &str) -> bool {
        self.fields.contains_key(type_name)
    }

    /// True for an interface.
    pub fn is_interface(&self, type_name: &str) -> bool {
        self.interfaces.contains(type_name)
    }

    /// The fields of an input object; `None` if there is no such type.
    pub fn input_object(&self, type_name: &str) -> Option<&Inputs> {
        self.input_objects.get(type_name)
    }

    /// The values of an enum; `None` if there is no such type.
    pub fn enum_values(&self, type_name: &str) -> Option<&[Name]> {
        self.enums.get(type_name).map(Vec::as_slice)
    }
}

fn inputs(definitions: Vec<Positioned<InputValueDefinition>>) -> Inputs {
    let input = |definition: Positioned<InputValueDefinition>| {
        let InputValueDefinition { name, ty, default_value, .. } = definition.node;
        (name.node, Input { of: ty.node, has_default: default_value.is_some() })
    };
    definitions.into_iter().map(input).collect()
}
